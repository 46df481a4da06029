from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # `models` is a folder of the repository, not an installed package
    sys.path.insert(0, str(ROOT))

from models import bert, llama, minilm, minilm_int8, weights  # noqa: E402
from models.encoder import EncoderConfig  # noqa: E402
from models.graph import Graph, external_path, save  # noqa: E402

SMALL_BERT = EncoderConfig(layers=2, hidden=32, heads=4, intermediate=64, vocabulary=50, positions=16)
SMALL_LLAMA = llama.LlamaConfig(layers=2, hidden=32, heads=4, kv_heads=2, intermediate=48, positions=16)


def session(model):
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return ort.InferenceSession(source, providers=["CPUExecutionProvider"])


# --- the encoder against plain numpy


def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def numpy_encoder(w, config, ids, mask, kinds):
    """A second, independent forward pass, in float64. `w`: tensors under their Hugging Face names."""

    def dense(x, name):
        return x @ w[f"{name}.weight"].astype(np.float64).T + w[f"{name}.bias"]

    def norm(x, name):
        mean = x.mean(-1, keepdims=True)
        spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + config.epsilon)
        return (x - mean) / spread * w[f"{name}.weight"] + w[f"{name}.bias"]

    batch, length = ids.shape
    size = config.hidden // config.heads
    x = w["embeddings.word_embeddings.weight"][ids].astype(np.float64)
    x = x + w["embeddings.token_type_embeddings.weight"][kinds]
    x = norm(x + w["embeddings.position_embeddings.weight"][:length], "embeddings.LayerNorm")
    for i in range(config.layers):
        p = f"encoder.layer.{i}"
        q, k, v = (
            dense(x, f"{p}.attention.self.{n}").reshape(batch, length, config.heads, size)
            for n in ("query", "key", "value")
        )
        scores = np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(size)
        scores = np.where(mask[:, None, None, :] == 1, scores, -np.inf)
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        chances /= chances.sum(-1, keepdims=True)
        mixed = np.einsum("bhqk,bkhd->bqhd", chances, v).reshape(batch, length, config.hidden)
        x = norm(x + dense(mixed, f"{p}.attention.output.dense"), f"{p}.attention.output.LayerNorm")
        h = dense(x, f"{p}.intermediate.dense")
        h = 0.5 * h * (1 + erf(h / math.sqrt(2)))
        x = norm(x + dense(h, f"{p}.output.dense"), f"{p}.output.LayerNorm")
    return x


def ragged_feed(config, lengths, seed=0):
    rng = np.random.default_rng(seed)
    shape = (len(lengths), max(lengths))
    ids = rng.integers(0, config.vocabulary, shape, dtype=np.int64)
    mask = (np.arange(shape[1]) < np.array(lengths)[:, None]).astype(np.int64)
    kinds = rng.integers(0, 2, shape, dtype=np.int64)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}


def initializers(model):
    """The weights of a built encoder under their Hugging Face names, dense ones [out, in] again."""
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    return {
        n: a.T if a.ndim == 2 and ("dense" in n or "self" in n) else a for n, a in arrays.items() if "." in n
    }


@pytest.mark.parametrize("fixed", [False, True])
def test_bert_is_a_bert(fixed):
    sizes = {"batch": 3, "sequence": 9} if fixed else {}
    model = bert.build(SMALL_BERT, **sizes, seed=3)
    feed = ragged_feed(SMALL_BERT, [9, 4, 1])
    (got,) = session(model).run(None, feed)
    expected = numpy_encoder(initializers(model), SMALL_BERT, *feed.values())
    np.testing.assert_allclose(got, expected, atol=1e-5, rtol=1e-5)


def test_bert_same_seed_same_model():
    one, two, other = (bert.build(SMALL_BERT, seed=s).SerializeToString() for s in (1, 1, 2))
    assert one == two != other


def test_bert_external_data_is_the_same_model(tmp_path):
    inline = bert.build(SMALL_BERT, seed=1)
    out = tmp_path / "m.onnx"
    save(bert.build(SMALL_BERT, seed=1, external=external_path(out)), out)
    feed = ragged_feed(SMALL_BERT, [5, 5])
    assert external_path(out).stat().st_size > out.stat().st_size
    np.testing.assert_array_equal(session(inline).run(None, feed)[0], session(out).run(None, feed)[0])


def test_bert_in_half_precision_is_valid():
    model = bert.build(SMALL_BERT, dtype=np.float16)
    half = onnx.TensorProto.FLOAT16
    assert all(t.data_type in (half, onnx.TensorProto.INT64) for t in model.graph.initializer)
    onnx.checker.check_model(model, full_check=True)


def test_encoder_refuses_heads_that_do_not_fit():
    with pytest.raises(ValueError, match="hidden=10 is not a multiple of heads=3"):
        EncoderConfig(layers=1, hidden=10, heads=3, intermediate=4)


# --- MiniLM, with its real weights


@pytest.fixture(scope="module")
def minilm_session():
    return session(minilm.build())


def test_minilm_matches_numpy(minilm_session):
    tensors = weights.read_safetensors(minilm.files() / "model.safetensors")
    feed = ragged_feed(minilm.CONFIG, [12, 7, 3])
    state, sentence = minilm_session.run(["last_hidden_state", "sentence_embedding"], feed)
    expected = numpy_encoder(tensors, minilm.CONFIG, *feed.values())
    np.testing.assert_allclose(state, expected, atol=1e-5, rtol=1e-5)
    mask = feed["attention_mask"][:, :, None]
    mean = (expected * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(sentence, mean / np.linalg.norm(mean, axis=1, keepdims=True), atol=1e-5)


def test_minilm_knows_what_sentences_mean(minilm_session):
    sentences = [
        "A man is eating food.",
        "A man is eating a piece of bread.",
        "The stock market fell sharply on Monday.",
        "Shares dropped at the start of the week.",
    ]
    feed = minilm.feed(minilm.tokenizer(), sentences)
    (e,) = minilm_session.run(["sentence_embedding"], feed)
    similar = e @ e.T
    np.testing.assert_allclose(np.diag(similar), 1, atol=1e-5)
    assert similar[0, 1] == pytest.approx(0.755, abs=0.01)  # the figure of the model's own documentation
    assert similar[2, 3] > 0.5
    assert np.abs(similar[:2, 2:]).max() < 0.15


def test_minilm_padding_changes_nothing(minilm_session):
    tokens = minilm.tokenizer()
    short, long = "Hello.", "A much longer sentence that makes the short one be padded with many tokens."
    (alone,) = minilm_session.run(["sentence_embedding"], minilm.feed(tokens, [short]))
    (padded,) = minilm_session.run(["sentence_embedding"], minilm.feed(tokens, [short, long]))
    np.testing.assert_allclose(alone[0], padded[0], atol=1e-5)


def test_minilm_static_sizes(minilm_session):
    feed = minilm.random_feed(2, 8)
    static = session(minilm.build(2, 8))
    assert static.get_inputs()[0].shape == [2, 8]
    for got, expected in zip(static.run(None, feed), minilm_session.run(None, feed), strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_minilm_int8_is_int8_storage_of_fp32_products(tmp_path, minilm_session):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "folded.onnx")
    other = ort.InferenceSession(str(minilm_int8.path()), options, providers=["CPUExecutionProvider"])
    folded = onnx.load(tmp_path / "folded.onnx")
    stored = {t.data_type for t in onnx.load(minilm_int8.path()).graph.initializer}
    kept = {t.name: t.data_type for t in folded.graph.initializer}
    products = [node for node in folded.graph.node if node.op_type == "MatMul"]
    assert onnx.TensorProto.INT8 in stored
    assert onnx.TensorProto.INT8 not in kept.values()
    assert len(products) == 48
    assert sum(kept.get(node.input[1]) == onnx.TensorProto.FLOAT for node in products) == 36
    feed = minilm.feed(minilm.tokenizer(), ["A man is eating food."])
    (a,), (b,) = (s.run(["last_hidden_state"], feed) for s in (other, minilm_session))
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.99


# --- Llama


def numpy_llama(w, config, states, positions, past):
    """A second, independent forward pass of the stack, in float64: the last state and the presents."""

    def norm(x, name):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + config.epsilon) * w[f"{name}.weight"]

    def turn(x):  # as complex numbers: pair (i, i + half) is rotated by position * theta^(-2i/size)
        half = config.head_size // 2
        angle = positions[:, None, :, None] * config.theta ** (-np.arange(half) * 2 / config.head_size)
        z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
        return np.concatenate([z.real, z.imag], -1)

    def heads(x, count):
        return x.reshape(*x.shape[:2], count, config.head_size).transpose(0, 2, 1, 3)

    x, presents = states.astype(np.float64), []
    for i in range(config.layers):
        p = f"layers.{i}"
        h = norm(x, f"{p}.input_norm")
        q = turn(heads(h @ w[f"{p}.q.weight"], config.heads))
        k = turn(heads(h @ w[f"{p}.k.weight"], config.kv_heads))
        v = heads(h @ w[f"{p}.v.weight"], config.kv_heads)
        if past:
            k, v = np.concatenate([past[2 * i], k], 2), np.concatenate([past[2 * i + 1], v], 2)
        presents += [k, v]
        k, v = (np.repeat(t, config.heads // config.kv_heads, axis=1) for t in (k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(config.head_size)
        scores = np.where(np.arange(k.shape[2]) <= positions[:, None, :, None], scores, -np.inf)
        chances = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (chances / chances.sum(-1, keepdims=True)) @ v
        x = x + mixed.transpose(0, 2, 1, 3).reshape(x.shape) @ w[f"{p}.o.weight"]
        h = norm(x, f"{p}.post_norm")
        gate = h @ w[f"{p}.gate.weight"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w[f"{p}.up.weight"])) @ w[f"{p}.down.weight"]
    return norm(x, "norm"), presents


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(("sequence", "past"), [(1, 5), (6, 0), (3, 4)])
def test_llama_is_a_llama(sequence, past, free):
    sizes = {"batch": 2, "sequence": sequence, "past": past}
    if free:
        sizes = {"batch": None, "sequence": None, "past": None if past else 0}
    model = llama.build(SMALL_LLAMA, **sizes, seed=5)
    feed = llama.decode_feed(SMALL_LLAMA, batch=2, sequence=sequence, past=past)
    got = session(model).run(None, feed)
    names = [output.name for output in model.graph.output]
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    pasts = [feed[f"past_{part}_{i}"] for i in range(2) for part in ("key", "value")] if past else []
    state, presents = numpy_llama(tensors, SMALL_LLAMA, feed["hidden_states"], feed["position_ids"], pasts)
    np.testing.assert_allclose(got[names.index("last_hidden_state")], state, atol=2e-5)
    for i, expected in enumerate(presents):
        part = f"present_{('key', 'value')[i % 2]}_{i // 2}"
        np.testing.assert_allclose(got[names.index(part)], expected, atol=2e-5)


def test_llama_one_token_at_a_time_is_the_prompt():
    prompt = session(llama.build(SMALL_LLAMA, batch=1, sequence=None, past=0))
    step = session(llama.build(SMALL_LLAMA, batch=1, sequence=1, past=None))
    feed = llama.decode_feed(SMALL_LLAMA, sequence=4)
    outputs = [o.name for o in prompt.get_outputs()]
    whole = dict(zip(outputs, prompt.run(None, feed), strict=True))
    part = {k: v[:, :3] for k, v in feed.items()}
    first = dict(zip(outputs, prompt.run(None, part), strict=True))
    last = {k: v[:, 3:] for k, v in feed.items()}
    last |= {n.replace("present", "past"): v for n, v in first.items() if n.startswith("present")}
    (got,) = step.run(["last_hidden_state"], last)
    np.testing.assert_allclose(got, whole["last_hidden_state"][:, 3:], atol=2e-5)


def test_llama_external_data_is_the_same_model(tmp_path):
    out = tmp_path / "m.onnx"
    config = llama.LlamaConfig(hidden=32, heads=4, kv_heads=4, intermediate=48, positions=256)
    save(llama.build(config, external=external_path(out)), out)
    feed = llama.decode_feed(config, past=200)
    for got, expected in zip(
        session(out).run(None, feed), session(llama.build(config)).run(None, feed), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_llama_refuses_heads_that_do_not_fit():
    with pytest.raises(ValueError, match="kv_heads=3"):
        llama.LlamaConfig(heads=4, kv_heads=3)


# --- digits


def test_digits_is_the_trained_network():
    pytest.importorskip("sklearn")
    from models import digits

    network = digits.train()
    model = digits.export(network)
    _, pixels, _, labels = digits.data()
    (got,) = session(model).run(None, {"pixels": pixels})
    np.testing.assert_allclose(got, network.predict_proba(pixels), atol=1e-5)
    assert (got.argmax(1) == labels).mean() > 0.95
    assert [node.op_type for node in model.graph.node].count("Gemm") == 3
    assert digits.export(network, batch=1).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1


# --- the builder itself


def test_graph_refuses_what_is_not_onnx():
    graph = Graph("wrong")
    graph.input("x", [1])
    graph.output(graph.op("NoSuchOperator", "x"), [1])
    with pytest.raises(onnx.checker.ValidationError, match="NoSuchOperator"):
        graph.model()
