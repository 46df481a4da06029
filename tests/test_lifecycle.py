"""Registration, sessions and their ends, each in a process of its own: a crash is a return code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.process import run_python
from support.sessions import needs_names

EXITS = {
    "nothing": "",
    "session_deleted": "del session",
    "unregistered": "del session; tunableop.unregister()",
    "unregistered_under_a_live_session": "tunableop.unregister()",
    "session_in_a_cycle": "loop = [session]; loop.append(loop); del session, loop",
    "session_in_a_module": "import json; json.kept = session; del session",
    "sys_exit": "sys.exit(0)",
}


@pytest.mark.parametrize("how", EXITS)
def test_every_way_to_end_a_process_is_clean_and_saves_the_cache(how: str, tmp_path: Path) -> None:
    cache = tmp_path / "own.json"
    run_python(
        f"""
        session = tunableop.InferenceSession(MODEL, cache=sys.argv[1])
        right(session)
        {EXITS[how]}
        """,
        str(cache),
    )
    assert len(json.loads(cache.read_text())["machines"][0]["entries"]) == 1


WAYS = {
    "keyword": "tunableop.InferenceSession(MODEL, cache=sys.argv[1])",
    "session_options": "tunableop.InferenceSession(MODEL, tunableop.session_options(cache=sys.argv[1]))",
    "providers": "tunableop.InferenceSession(MODEL, providers=[(EP, {'cache': sys.argv[1]})])",
}


@needs_names
@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_is_never_released_is_saved_at_exit(way: str, tmp_path: Path) -> None:
    cache = tmp_path / "own.json"
    run_python(
        f"""
        import ctypes
        session = {WAYS[way]}
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(session))
        right(session)  # saved at once, and what follows not again so soon
        right(session, A[:2])
        """,
        str(cache),
    )
    assert len(json.loads(cache.read_text())["machines"][0]["entries"]) == 2


def test_trouble_with_one_session_at_exit_costs_the_others_nothing() -> None:
    done = run_python("""
    from onnxruntime_ep_tunableop import _control
    sessions = [tunableop.InferenceSession(MODEL) for _ in range(3)]
    def fail(session):
        print("asked")
        raise ValueError("an answer that is no JSON")
    _control.save_own_cache = fail
    """)
    assert done.stdout.count("asked") == 3
    assert done.stderr.count("the cache of a session was not saved: an answer that is no JSON") == 3


def test_a_session_that_another_copy_of_the_library_serves_is_refused(tmp_path: Path) -> None:
    """Somebody else registered a copy under our name: what we ask, we ask our own library."""
    run_python(
        """
        import shutil
        copy = shutil.copy(tunableop.get_library_path(), sys.argv[1])
        ort.register_execution_provider_library(EP, copy)
        try:
            tunableop.InferenceSession(MODEL)
        except tunableop.TunableOpError as error:
            assert tunableop.get_library_path() in str(error), error
            assert "another copy" in str(error), error
        else:
            raise AssertionError("nothing can be asked of this session")
        """,
        str(tmp_path),
    )


def test_an_exception_that_ends_the_process_keeps_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "own.json"
    done = run_python(
        """
        session = tunableop.InferenceSession(MODEL, cache=sys.argv[1])
        right(session)
        raise RuntimeError("the user's own")
        """,
        str(cache),
        check=False,
    )
    assert done.returncode == 1
    assert "the user's own" in done.stderr
    assert len(json.loads(cache.read_text())["machines"][0]["entries"]) == 1


def test_register_is_idempotent_and_unregister_undoes_it() -> None:
    run_python("""
    assert not tunableop.is_registered()
    for _ in range(3):
        tunableop.register()
        assert tunableop.is_registered()
    devices = [device for device in ort.get_ep_devices() if device.ep_name == EP]
    assert len(devices) == 1, devices
    del devices
    tunableop.unregister()
    assert not tunableop.is_registered()
    try:
        tunableop.unregister()
    except tunableop.TunableOpError as error:
        assert "register()" in str(error), error
    else:
        raise AssertionError("a second unregister must fail")
    """)


def test_register_from_many_threads_registers_once() -> None:
    run_python("""
    import threading
    barrier = threading.Barrier(8)
    def work():
        barrier.wait()
        tunableop.register()
    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len([device for device in ort.get_ep_devices() if device.ep_name == EP]) == 1
    """)


def test_register_and_unregister_again_and_again_with_sessions_between() -> None:
    run_python("""
    for _ in range(5):
        tunableop.register()
        right(tunableop.InferenceSession(MODEL))
        tunableop.unregister()
        try:
            plain()
        except Exception:
            pass
    right(tunableop.InferenceSession(MODEL))
    """)


def test_a_session_outlives_the_registration() -> None:
    run_python("""
    old = tunableop.InferenceSession(MODEL)
    right(old)
    tunableop.unregister()
    for m in (1, 4, 9):
        right(old, np.ones((m, 8), np.float32))
    assert tunableop.stats(old).tuned == 4
    assert EP in str(tunableop.explain(old))
    tunableop.register()
    new = tunableop.InferenceSession(MODEL)
    right(new)
    right(old)
    assert tunableop.stats(new).tuned == 1
    del old
    right(new)
    tunableop.unregister()
    right(new)
    del new
    """)


def test_registration_by_plain_onnxruntime_under_another_name() -> None:
    run_python("""
    ort.register_execution_provider_library("my_name", tunableop.get_library_path())
    assert tunableop.is_registered()
    right(plain())
    session = tunableop.InferenceSession(MODEL)
    right(session)
    assert tunableop.stats(session).tuned == 1
    try:
        tunableop.unregister()
    except tunableop.TunableOpError:
        pass
    else:
        raise AssertionError("it was not registered under our name")
    assert tunableop.is_registered()
    del session
    ort.unregister_execution_provider_library("my_name")
    assert not tunableop.is_registered()
    right(tunableop.InferenceSession(MODEL))
    """)


def test_a_second_registration_under_another_name_does_no_harm() -> None:
    run_python("""
    tunableop.register()
    ort.register_execution_provider_library("again", tunableop.get_library_path())
    right(tunableop.InferenceSession(MODEL))
    right(ort.InferenceSession(BYTES, tunableop.session_options()))
    right(plain())
    ort.unregister_execution_provider_library("again")
    right(tunableop.InferenceSession(MODEL))
    """)


def test_a_missing_library_file_is_named() -> None:
    run_python("""
    from onnxruntime_ep_tunableop import _library
    _library.get_library_path = lambda: "/no/such/library.so"
    try:
        tunableop.register()
    except tunableop.TunableOpError as error:
        assert "/no/such/library.so" in str(error), error
        assert "missing" in str(error), error
    else:
        raise AssertionError("there is no such library")
    assert not tunableop.is_registered()
    """)


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF no, it is not")
    run_python(
        """
        from onnxruntime_ep_tunableop import _library
        _library.get_library_path = lambda: sys.argv[1]
        try:
            tunableop.register()
        except tunableop.TunableOpError as error:
            assert sys.argv[1] in str(error), error
            assert ort.__version__ in str(error), error
        else:
            raise AssertionError("it is not a library")
        """,
        str(broken),
    )


def test_a_library_without_a_device_is_an_error_of_its_own() -> None:
    run_python("""
    from onnxruntime_ep_tunableop import _library
    _library._ep_devices = list
    try:
        tunableop.register()
    except tunableop.NoDeviceError as error:
        assert "lists no device" in str(error), error
    else:
        raise AssertionError("no device is an error")
    """)


def test_an_old_onnxruntime_is_refused_with_the_version_that_is_needed() -> None:
    run_python("""
    ort.__version__ = "1.23.2"
    for call in (tunableop.register, lambda: tunableop.InferenceSession(MODEL), tunableop.devices):
        try:
            call()
        except tunableop.UnsupportedRuntimeError as error:
            assert "1.23.2" in str(error) and "1.24" in str(error), error
        else:
            raise AssertionError("1.23 cannot load plugin providers of this kind")
    assert not tunableop.is_registered()
    """)


def test_a_process_wide_thread_pool() -> None:
    """Sessions without a pool of their own; the provider finds out how many threads there are."""
    run_python("""
    ort.set_global_thread_pool_sizes(3, 1)
    options = ort.SessionOptions()
    options.use_per_session_threads = False
    session = tunableop.InferenceSession(MODEL, options)
    right(session)
    right(session, np.ones((300, 8), np.float32))
    entries = tunableop.get_tuning_results(session)["machines"][0]["entries"]
    assert {entry["threads"] for entry in entries} <= {1, 2, 3}, entries
    assert len({entry["threads"] for entry in entries}) == 1
    """)


def test_a_session_made_after_a_fork_works() -> None:
    run_python("""
    import os
    tunableop.register()
    child = os.fork()
    if child == 0:
        right(tunableop.InferenceSession(MODEL))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    right(tunableop.InferenceSession(MODEL))
    """)


def test_nothing_is_written_to_standard_output_or_error() -> None:
    done = run_python("""
    tunableop.register()
    options = ort.SessionOptions()
    for _ in range(2):
        session = tunableop.InferenceSession(MODEL, options)
        right(session)
    right(ort.InferenceSession(BYTES, tunableop.session_options()))
    """)
    assert done.stdout == ""
    assert done.stderr == ""


@pytest.mark.parametrize("way", ["plain", pytest.param("by_name", marks=needs_names)])
def test_plain_onnxruntime_by_device_and_by_name(way: str) -> None:
    run_python(f"""
    tunableop.register()
    measuring, resting = {way}(), {way}(tuning="off")
    for session in (measuring, resting):
        right(session)
        assert session.get_providers()[0] == EP
        assert [node.claimed for node in tunableop.explain(session).nodes] == [True]
    assert tunableop.stats(measuring).tuned == 1
    assert tunableop.stats(resting).fallbacks == {{"tuning_off": 1}}
    """)


WRONG = """
WRONG = (
    ({"tunning": "off"}, ["tunning", "tuning, cache, cache_size"]),
    ({"tuning": "sometimes"}, ["'tuning'", "off, cached, online", "'sometimes'"]),
    ({"cache_size": "0"}, ["'cache_size'", "1 to", "'0'"]),
    ({"cache_size": "many"}, ["'cache_size'", "integer", "'many'"]),
    ({"min_gain": "nan"}, ["'min_gain'", "0 to 0.99", "'nan'"]),
    ({"verify": "yes"}, ["'verify'", "0 or 1", "'yes'"]),
    ({"claim": ""}, ["'claim'", "auto, all, gemm, weights", "''"]),
)
"""


@pytest.mark.parametrize("way", [pytest.param("by_name", marks=needs_names), "by_device", "by_config_entry"])
def test_plain_onnxruntime_refuses_wrong_options_and_names_the_right_ones(way: str) -> None:
    run_python(
        WRONG
        + """
tunableop.register()

def make(options, way):
    if way == "by_name":
        return ort.InferenceSession(BYTES, providers=[(EP, options)], enable_fallback=0)
    settings = ort.SessionOptions()
    if way == "by_config_entry":
        for key, value in options.items():
            settings.add_session_config_entry(f"ep.{EP.lower()}.{key}", value)
        options = {}
    devices = [device for device in ort.get_ep_devices() if device.ep_name == EP]
    settings.add_provider_for_devices(devices, options)
    return ort.InferenceSession(BYTES, settings, enable_fallback=0)

for options, words in WRONG:
    try:
        session = make(options, sys.argv[1])
    except Exception as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise AssertionError(f"{options} made a session with {session.get_providers()}")
right(make({"tuning": "off"}, sys.argv[1]))
""",
        way,
    )


@needs_names
def test_where_plain_onnxruntime_falls_back_to_the_cpu_it_says_why() -> None:
    """Its own way with any error by name, unless enable_fallback=0; our InferenceSession never does."""
    done = run_python("""
    tunableop.register()
    session = by_name(tuning="sometimes")
    assert session.get_providers() == ["CPUExecutionProvider"]
    right(session)
    """)
    assert "off, cached, online" in done.stdout


needs_two_processors = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="needs a processor to leave out"
)


@needs_two_processors
def test_a_pinned_thread_sees_the_machine_and_the_pool_of_the_process(tmp_path: Path) -> None:
    """Servers pin the threads that take requests; neither the file nor the threads may hang on that."""
    script = """
    import os, threading
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = tunableop.InferenceSession(MODEL, options) if sys.argv[2] == "pinned" else None

    def work():
        if session is None:
            right(tunableop.InferenceSession(MODEL, options, cache=sys.argv[1]))
            return
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        assert tunableop.load_cache(session, sys.argv[1]) == []
        right(session)
        print(tunableop.stats(session).hits)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    """
    file = str(tmp_path / "own.json")
    run_python(script, file, "free")
    assert run_python(script, file, "pinned").stdout.split() == ["1"]


def test_a_second_onnxruntime_in_the_process_is_refused() -> None:
    """Its tables would take the place of those that sessions are using."""
    run_python("""
    import ctypes
    tunableop.register()
    library = ctypes.CDLL(tunableop.get_library_path())
    words = (ctypes.c_void_p * 4096)()
    messages = []

    @ctypes.CFUNCTYPE(ctypes.c_void_p)
    def get_ep_api():
        return ctypes.addressof(words)

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
    def create_status(code, message):
        messages.append(message.decode())
        return 1

    for i in range(len(words)):
        words[i] = ctypes.cast(get_ep_api, ctypes.c_void_p)
    words[0] = ctypes.cast(create_status, ctypes.c_void_p)

    class Base(ctypes.Structure):
        _fields_ = [("get_api", ctypes.c_void_p), ("get_version", ctypes.c_void_p)]

    @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    def get_api(version):
        return ctypes.addressof(words)

    version_text = ctypes.create_string_buffer(b"1.99.7")

    @ctypes.CFUNCTYPE(ctypes.c_void_p)
    def get_version():
        return ctypes.addressof(version_text)

    base = Base(ctypes.cast(get_api, ctypes.c_void_p), ctypes.cast(get_version, ctypes.c_void_p))
    create = library.CreateEpFactories
    create.restype = ctypes.c_void_p
    factory, count = ctypes.c_void_p(), ctypes.c_size_t()
    places = ctypes.byref(factory), ctypes.c_size_t(1), ctypes.byref(count)
    assert create(b"x", ctypes.byref(base), None, *places) == 1
    (message,) = messages
    assert "1.99.7" in message and ort.__version__.split("+")[0] in message, message
    right(tunableop.InferenceSession(MODEL))
    """)
