"""Which family of work a kernel on a card belongs to, and what a trace says of a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from test_benchmarks_gpu import arguments, stand_in

from benchmarks.gpu import families, traces
from benchmarks.gpu.report import Clock
from benchmarks.gpu.traces import Work

KERNELS = Path(__file__).resolve().parent.parent / "ep" / "kernels"

LIBRARIES = {
    "products": [
        "nvjet_hsh_128x64_64x6_1x2_h_bz_bias_TNT",
        "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNN",
        "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_kernel__5x_cublas",
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16",
        "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_64x64_64x6_tn_align8>(Params)",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>(cublasGemmSmallNParams<float const*>)",
        "void gemv2T_kernel_val<int, int, __half, __half, float, float, 128, 16, 4, 4, false>(int, float)",
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float, __half, true>(cublasLt::P)",
        "void splitKreduce_kernel<32, 16, int, __half>(int)",
        "ampere_sgemm_32x32_sliced1x4_nn",
        "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, true>(int, int)",
        "Cijk_Ailk_Bljk_HHS_BH_MT64x64x32_MI32x32x8x1",
    ],
    "attention": [
        "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>::Params)",
        "void onnxruntime::flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>, false>(F)",
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x64",
        "void onnxruntime::cuda::(anonymous namespace)::softmax_warp_forward<float, float, float, 7>(int)",
        "void onnxruntime::cuda::BiasSoftmaxWarpForward<float, float, float, 7>(float*)",
    ],
    "norms": [
        "void onnxruntime::cuda::(anonymous namespace)::cuApplyLayerNorm<float, float, float, false>(float*)",
        "void onnxruntime::contrib::cuda::SkipLayerNormKernelSmall<__half, 192u, 4, false>(__half*)",
        "void onnxruntime::contrib::cuda::EmbedLayerNormKernel<__half, 256u>(int)",
    ],
    "transpositions and other moves": [
        "void onnxruntime::cuda::Transpose3DKernel<16u, float>(long)",
        "onnxruntime::cuda::Transpose4DKernelParallelizeMultipleElementsPerThreadInInnermostDim(int)",
        "void onnxruntime::cuda::_SplitKernelSameSplitDim<float>(onnxruntime::cuda::fast_divmod)",
        "void onnxruntime::cuda::_ConcatKernelSameConcatDim<int>(int)",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t)",
    ],
    "activations": [
        "void onnxruntime::cuda::_UnaryElementWise<float, float, onnxruntime::cuda::OP_Gelu<float>>(int)",
        "void onnxruntime::cuda::_UnaryElementWise<__half, __half, onnxruntime::cuda::OP_Erf<__half>>(int)",
        "void onnxruntime::contrib::cuda::FastGeluKernel2<256u>(__half2)",
        "void onnxruntime::cuda::_UnaryElementWise<float, float, onnxruntime::cuda::OP_Relu<float>>(int)",
    ],
    "rest": [
        "void onnxruntime::cuda::_BinaryElementWiseSimple<true, true, __half, __half, OP_Add<__half>>(int)",
        "void onnxruntime::cuda::_GatherKernel<__half>(long, onnxruntime::cuda::fast_divmod)",
        "void onnxruntime::cuda::_UnaryElementWise<__half, float, onnxruntime::cuda::OP_Cast<__half>>(int)",
    ],
}


def test_kernels_of_libraries_and_of_the_stock_provider() -> None:
    found = {name: traces.family(name) for names in LIBRARIES.values() for name in names}
    assert found == {name: kind for kind, names in LIBRARIES.items() for name in names}


def entries() -> set[str]:
    """All kernels of the project, by the names that a profiler shows."""
    macro = re.compile(r"^TUNABLEOP_(?:KERNEL\((\w+)|(?:UNARY|BINARY|BIAS)\(\w+, (\w+),)", re.MULTILINE)
    texts = [path.read_text(encoding="utf-8") for path in KERNELS.glob("*.h")]
    return {one or other for text in texts for one, other in macro.findall(text)}


def test_every_kernel_of_ours_has_its_family() -> None:
    kinds: dict[str, set[str]] = {}
    for name in entries():
        kinds.setdefault(traces.family(name), set()).add(name)
    assert kinds["products"] == {"im2col"}
    assert kinds["norms"] == {"layer_norm", "rms_norm", "embed_layer_norm", "embed_rms_norm"}
    assert kinds["transpositions and other moves"] == {"copy", "copy_tiled", "copy_pad", "split_columns"}
    assert {"attention", "attention_rows", "attention_keys", "attention_merge", "softmax"} <= kinds[
        "attention"
    ]
    assert {"unary_gelu", "bias_gelu", "bias_quick_gelu", "bias_relu", "unary_tanh"} <= kinds["activations"]
    assert {"bias_add", "binary_add", "gather", "where", "cast", "rotary"} <= kinds["rest"]
    families = json.loads((KERNELS / "families.json").read_text(encoding="utf-8"))
    assert len(families) <= len(entries())  # of each family one at least


def event(name: str, took: float, category: str = "kernel", **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": 1, "dur": took} | more


TRACE = {
    "traceEvents": [
        event("layer_norm", 2.5),
        event("layer_norm", 1.5),
        event("nvjet_a", 8.0),
        event("nvjet_b", 10.0),
        event("Memcpy DtoD (Device -> Device)", 1.0, "gpu_memcpy"),
        event("Memset (Device)", 1.0, "gpu_memset"),
        event("cudaLaunchKernel", 50.0, "cuda_runtime"),
        event("ours", 70.0, "gpu_user_annotation"),
        {"ph": "i", "cat": "kernel", "name": "layer_norm"},
        {"name": "process_name", "ph": "M"},
    ]
}


def test_a_trace_of_two_runs() -> None:
    kernels = traces.by_kernel(TRACE, 2)
    assert list(kernels) == [
        "nvjet_b",
        "nvjet_a",
        "layer_norm",
        "Memcpy DtoD (Device -> Device)",
        "Memset (Device)",
    ]
    assert kernels["layer_norm"] == Work(2.0, 1.0)
    assert traces.by_family(kernels) == {
        "products": Work(9.0, 1.0),
        "attention": Work(0.0, 0.0),
        "transpositions and other moves": Work(0.0, 0.0),
        "norms": Work(2.0, 1.0),
        "activations": Work(0.0, 0.0),
        "rest": Work(0.0, 0.0),
        "copies and fills by the driver": Work(1.0, 1.0),
    }
    assert (str(Work(393.04, 108.0)), str(traces.NOTHING)) == ("393.0 (108)", "-")


def test_the_part_with_the_cpu_in_place_of_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    card = stand_in(monkeypatch)
    calls: list[int] = []

    def record(call: Any, runs: int) -> dict[str, Work]:
        call()
        calls.append(runs)
        return traces.by_kernel(TRACE, 2)

    monkeypatch.setattr(traces, "missing", lambda: "")
    monkeypatch.setattr(traces, "start", lambda: None)
    monkeypatch.setattr(traces, "record", record)
    args = arguments(*("--small", "--model", "minilm", "--mode", "fp32", "--batch", "2", "--sizes", "static"))
    report = families.run(card, args, Clock(300))
    assert report.wrong == []
    (left_out,) = report.left_out
    assert "no graphs here" in left_out
    assert [r["contender"] for r in report.results] == ["stock", "ours, claim=all", "ours, claim=all, graph"]
    assert calls == [3, 3, 3]
    text = "\n".join(report.text)
    assert "#### small minilm fp32 2x24 static" in text
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    assert ["products", "9.0 (1)", "9.0 (1)", "9.0 (1)"] in rows
    assert ["all", "12.0 (3)", "12.0 (3)", "12.0 (3)"] in rows
    assert rows.count(["layer_norm", "norms", "2.0 (1)"]) == 2  # of ours, with a graph and without
    monkeypatch.setattr(traces, "record", lambda call, runs: {})
    silent = families.run(card, args, Clock(300))
    assert len(silent.wrong) == 3
    assert all("saw no kernel" in line for line in silent.wrong)
    late = families.run(card, args, Clock(-1))
    assert late.left_out == ["small minilm fp32 2x24 static: no time left"]
