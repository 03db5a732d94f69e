"""PrometheusSource against a fake Prometheus: an HTTP server that answers what a test tells it to."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from scheduler.catalog import CredentialRules
from scheduler.load import LoadError, LoadSettings, PrometheusSource
from tests.unit.scheduler.load.fakes import send

Answer = Callable[[BaseHTTPRequestHandler, str], None]


class FakePrometheus:
    """Answers each query by `answer`; remembers the queries and the Authorization headers."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.authorizations: list[str | None] = []
        self.answer: Answer = lambda handler, query: send(handler, vector({}))
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = parse_qs(urlsplit(self.path).query).get("query", [""])[0]
                fake.queries.append(query)
                fake.authorizations.append(self.headers.get("Authorization"))
                fake.answer(self, query)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


def vector(values: dict[str, str], extra: list[Any] | None = None) -> bytes:
    result = [{"metric": {"instance": node}, "value": [1000, value]} for node, value in values.items()]
    return json.dumps(
        {"status": "success", "data": {"resultType": "vector", "result": result + (extra or [])}}
    ).encode()


def sample_time(node: str, at: float) -> dict[str, object]:
    return {"metric": {"instance": node, "secondary_scheduler_stat": "sample_time"}, "value": [1000, str(at)]}


@pytest.fixture
def prometheus() -> Iterator[FakePrometheus]:
    fake = FakePrometheus()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def source(prometheus: FakePrometheus, **settings: object) -> PrometheusSource:
    return PrometheusSource(LoadSettings(address=prometheus.url, **settings))  # type: ignore[arg-type]


def test_one_read_costs_four_queries_and_yields_per_cent_with_their_age(prometheus: FakePrometheus) -> None:
    def answer(handler: BaseHTTPRequestHandler, query: str) -> None:
        if "stddev" in query:
            send(handler, vector({"n1": "0.05"}))
        elif "cpu" in query:
            send(handler, vector({"n1": "0.42"}, [sample_time("n1", 990.5)]))
        else:
            send(handler, vector({"n1": "0.5", "n2": "0.25"}))

    prometheus.answer = answer
    reading = source(prometheus, window="5m").read()

    assert len(prometheus.queries) == 4
    assert all("[5m" in query and "$window" not in query for query in prometheus.queries)
    n1, n2 = reading.loads["n1"], reading.loads["n2"]
    assert (n1.cpu_average, n1.cpu_stddev, n1.memory_average, n1.memory_stddev) == pytest.approx((42, 5, 50, 5))
    assert n1.measured_at == 990.5
    assert math.isnan(n2.cpu_average)
    assert n2.memory_average == pytest.approx(25)


@pytest.mark.parametrize(
    "value",
    [
        *("NaN", "+Inf", "-Inf", "-0.3", "junk", "1_0", "\u0661", "0x1p-2", " 1", "1 ", "", "nan", "Infinity", "1e5"),
        *("1.", ".5", "1e+999", "9" * 500),
    ],
)
def test_a_value_that_is_no_load_is_missing_and_counted(prometheus: FakePrometheus, value: str) -> None:
    prometheus.answer = lambda handler, query: send(handler, vector({"bad": value, "good": "0.1"}))
    reading = source(prometheus).read()
    assert "bad" not in reading.loads
    assert reading.rejected["cpu_average"] == 1
    assert re.search(r"^(nan|-?inf|-0.3) of 'bad' cannot be a load|is not a number", reading.reasons["cpu_average"])
    assert reading.loads["good"].cpu_average == pytest.approx(10)


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("1", 100),
        ("0.25", 25),
        ("1e-07", 1e-5),
        ("1.5e-10", 1.5e-8),
        ("-0", 0),
        ("0.0000012345678901234567", 1.2345678901e-4),
    ],
)
def test_numbers_are_read_as_prometheus_writes_them(prometheus: FakePrometheus, text: str, percent: float) -> None:
    prometheus.answer = lambda handler, query: send(handler, vector({"n1": text}))
    assert source(prometheus).read().loads["n1"].cpu_average == pytest.approx(percent)


WRONG: dict[str, Any] = {
    "a number": 7,
    "null": None,
    "a list of labels": {"metric": [1], "value": [1, "1"]},
    "an instance that is a number": {"metric": {"instance": 5}, "value": [1, "1"]},
    "an instance that is no text": {"metric": {"instance": "\ud800"}, "value": [1, "1"]},
    "no instance": {"metric": {"node": "n1"}, "value": [1, "1"]},
    "an empty instance": {"metric": {"instance": ""}, "value": [1, "1"]},
    "no value": {"metric": {"instance": "bad"}},
    "a value that is a number": {"metric": {"instance": "bad"}, "value": [1, 1]},
    "a value too many": {"metric": {"instance": "bad"}, "value": [1, "1", "1"]},
    "a histogram": {"metric": {"instance": "bad"}, "histogram": [1, {"count": "1", "sum": "1"}]},
    "series": {"metric": {"instance": "bad"}, "values": [[1, "1"]]},
    "deep nesting": json.loads("[" * 900 + "]" * 900),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_sample_costs_itself_is_counted_and_is_told(prometheus: FakePrometheus, wrong: str) -> None:
    body = vector({"good": "0.1"}, [WRONG[wrong]])
    prometheus.answer = lambda handler, query: send(handler, body)
    reading = source(prometheus).read()
    assert set(reading.loads) == {"good"}
    assert reading.rejected == dict.fromkeys(("cpu_average", "cpu_stddev", "memory_average", "memory_stddev"), 1)
    assert "cpu_average: 1 (" in reading.left_out
    assert all(reading.reasons.values())


def test_a_time_that_is_none_costs_the_time_and_is_no_load(prometheus: FakePrometheus) -> None:
    timeless = {"metric": {"instance": "n2", "secondary_scheduler_stat": "sample_time"}, "value": [1000, "NaN"]}
    prometheus.answer = lambda handler, query: send(handler, vector({"n1": "0.1"}, [timeless, sample_time("n1", 990)]))
    reading = source(prometheus).read()
    assert set(reading.loads) == {"n1"}
    assert "nan of 'n2' cannot be a time" in reading.reasons["cpu_average"]


def test_a_node_with_the_time_of_a_sample_and_no_value_has_no_load(prometheus: FakePrometheus) -> None:
    times = [sample_time(node, 990) for node in ("bad", "good")]
    prometheus.answer = lambda handler, query: send(handler, vector({"bad": "NaN", "good": "0.1"}, times))
    assert set(source(prometheus).read().loads) == {"good"}


def test_one_failing_figure_leaves_the_others(prometheus: FakePrometheus) -> None:
    def answer(handler: BaseHTTPRequestHandler, query: str) -> None:
        if "memory" in query:
            send(handler, b'{"status":"error"}', status=422)
        else:
            send(handler, vector({"n1": "0.3"}))

    prometheus.answer = answer
    load = source(prometheus).read().loads["n1"]
    assert load.cpu_average == pytest.approx(30)
    assert math.isnan(load.memory_average)


def test_the_token_file_is_read_again_after_rotation(prometheus: FakePrometheus, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    reader = source(prometheus, token_file=token, rules=CredentialRules(directory=str(tmp_path)))
    reader.read()
    token.write_text("second\n")
    reader.read()
    assert prometheus.authorizations[0] == "Bearer first"
    assert prometheus.authorizations[-1] == "Bearer second"


REFUSED = {
    "redirect": (lambda h, q: send(h, b"", status=302), "redirected"),
    "unauthorized": (lambda h, q: send(h, b"secret-canary", status=401, content_type="application/json"), "HTTP 401"),
    "login page": (lambda h, q: send(h, b"<html>", content_type="text/html"), "login page"),
    "not a vector": (lambda h, q: send(h, b'{"data": {"result": "x"}}'), "cannot be used: Expected `array`, got `str`"),
    "not json": (lambda h, q: send(h, b"{"), "cannot be used: not JSON"),
    "server error": (lambda h, q: send(h, b"boom", status=500), "query refused"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_error_for_an_invalid_answer_says_why_and_shows_no_token(prometheus: FakePrometheus, name: str) -> None:
    prometheus.answer, expected = REFUSED[name]
    with pytest.raises(LoadError, match=expected) as caught:
        source(prometheus, token="s3cret-token").read()
    assert prometheus.url in str(caught.value)
    assert "s3cret-token" not in str(caught.value)


def test_a_huge_answer_is_cut_off(prometheus: FakePrometheus) -> None:
    body = b" " * 270_000
    prometheus.answer = lambda handler, query: send(handler, body)
    known = PrometheusSource(LoadSettings(address=prometheus.url), object_count=lambda: 2)
    with pytest.raises(LoadError, match="larger than 266240 bytes, which is the most for 2 nodes or pods; narrow"):
        known.read()
    body = vector({f"n{number}": "0.1" for number in range(4000)})
    assert len(PrometheusSource(LoadSettings(address=prometheus.url), object_count=lambda: 100).read().loads) == 4000


def test_of_a_huge_refusal_a_line_is_told(prometheus: FakePrometheus) -> None:
    prometheus.answer = lambda handler, query: send(handler, b"x" * 70_000, status=500)
    with pytest.raises(LoadError, match="larger than 65536 bytes"):
        source(prometheus).read()
    prometheus.answer = lambda handler, query: send(handler, b"x" * 60_000, status=500)
    with pytest.raises(LoadError, match="query refused") as refused:
        source(prometheus).read()
    assert len(str(refused.value)) < 1000


def test_a_slow_drip_ends_at_the_deadline(prometheus: FakePrometheus) -> None:
    def drip(handler: BaseHTTPRequestHandler, query: str) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for _ in range(2000):
                handler.wfile.write(b"1\r\n \r\n")
                handler.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    prometheus.answer = drip
    started = time.monotonic()
    with pytest.raises(LoadError, match=r"within 0\.3 s"):
        source(prometheus, timeout_seconds=0.3).read()
    assert time.monotonic() - started < 50, "the whole answer takes 100 s"


def test_a_source_that_is_down_is_named_with_the_reason() -> None:
    with pytest.raises(LoadError, match=r"http://127.0.0.1:9: not reachable \(.*refused"):
        PrometheusSource(LoadSettings(address="http://127.0.0.1:9")).read()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_reason_is_in_words_not_in_objects_of_the_http_library(scheme: str) -> None:
    for host in ("127.0.0.1:9", "absent.invalid:9"):
        with pytest.raises(LoadError) as failed:
            PrometheusSource(LoadSettings(address=f"{scheme}://{host}")).read()
        assert "Connection(" not in str(failed.value)
        assert "Errno" not in str(failed.value)


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    settings = LoadSettings(address="http://127.0.0.1:9", token_file=tmp_path / "absent", rules=CredentialRules(None))
    with pytest.raises(LoadError, match=r"token file .*absent: No such file"):
        PrometheusSource(settings).read()


def test_the_label_that_names_the_node_is_configurable(prometheus: FakePrometheus) -> None:
    result = [{"metric": {"node": "n1", "instance": "10.0.0.1:9100"}, "value": [1000, "0.5"]}]
    body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
    prometheus.answer = lambda handler, query: send(handler, body)
    assert set(source(prometheus, node_label="node").read().loads) == {"n1"}
    assert set(source(prometheus).read().loads) == {"10.0.0.1:9100"}


def test_a_ratio_beyond_a_thousand_nodes_is_no_load(prometheus: FakePrometheus) -> None:
    prometheus.answer = lambda handler, query: send(handler, vector({"n1": "10001", "n2": "1.2"}))
    reading = source(prometheus).read()
    assert set(reading.loads) == {"n2"} or math.isnan(reading.loads["n1"].cpu_average)
    assert reading.loads["n2"].cpu_average == 120
    assert reading.rejected["cpu_stddev"] == 1


def test_an_answer_without_series_says_what_may_be_missing(prometheus: FakePrometheus) -> None:
    assert "recording rules" in source(prometheus).read().problems[0]


def test_of_several_series_per_node_the_largest_counts_and_is_reported(prometheus: FakePrometheus) -> None:
    doubled = [{"metric": {"instance": "n1", "cpu": str(cpu)}, "value": [1000, str(cpu / 10)]} for cpu in (1, 4, 2)]
    prometheus.answer = lambda handler, query: send(handler, vector({}, doubled))
    reading = source(prometheus).read()
    assert reading.loads["n1"].cpu_average == pytest.approx(40)
    assert any("aggregate the query by (instance)" in problem for problem in reading.problems)


@pytest.mark.parametrize(("content", "reason"), [("", "empty"), ("a\nb", "control characters")])
def test_a_token_file_without_a_token_is_named_and_nothing_is_sent(
    prometheus: FakePrometheus, tmp_path: Path, content: str, reason: str
) -> None:
    token = tmp_path / "token"
    token.write_text(content)
    with pytest.raises(LoadError, match=f"token file .*{reason}"):
        source(prometheus, token_file=token, rules=CredentialRules(directory=str(tmp_path))).read()
    assert prometheus.queries == []


def test_a_mounted_token_is_read_through_the_kubelets_links_and_no_other_link(
    prometheus: FakePrometheus, tmp_path: Path
) -> None:
    mounted, other = tmp_path / "metrics", tmp_path / "other"
    (mounted / "..2026_11_22").mkdir(parents=True)
    (mounted / "..2026_11_22" / "token").write_text("mounted")
    (mounted / "..data").symlink_to("..2026_11_22")
    (mounted / "token").symlink_to("..data/token")
    other.write_text("canary-of-another-file")
    (mounted / "away").symlink_to(other)
    rules = CredentialRules(directory=str(mounted))
    source(prometheus, token_file=mounted / "token", rules=rules).read()
    assert set(prometheus.authorizations) == {"Bearer mounted"}
    with pytest.raises(LoadError, match=r"away: leads to .*other, outside of .*metrics, and is not read"):
        source(prometheus, token_file=mounted / "away", rules=rules).read()
    assert set(prometheus.authorizations) == {"Bearer mounted"}


@pytest.mark.parametrize(
    ("path", "reason"),
    [("/dev/zero", "not a file"), ("{tmp}/large", "larger than 65536 bytes"), ("{tmp}", "not a file")],
)
def test_a_token_file_without_end_is_refused(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    settings = LoadSettings(
        "http://127.0.0.1:9", token_file=Path(path.format(tmp=tmp_path)), rules=CredentialRules(None)
    )
    with pytest.raises(LoadError, match=reason):
        PrometheusSource(settings).read()


def test_a_ca_file_without_end_is_refused() -> None:
    with pytest.raises(LoadError, match="caFile /dev/zero: not a file of at most"):
        PrometheusSource(LoadSettings("https://127.0.0.1:9", ca_file=Path("/dev/zero"))).read()


def test_a_missing_ca_file_is_named(tmp_path: Path) -> None:
    settings = LoadSettings(address="https://127.0.0.1:9", ca_file=tmp_path / "absent.crt")
    with pytest.raises(LoadError, match=r"caFile .*absent\.crt"):
        PrometheusSource(settings).read()


def test_a_token_that_the_rules_keep_back_is_not_sent_and_nothing_is(prometheus: FakePrometheus) -> None:
    settings = LoadSettings(address=prometheus.url.replace("127.0.0.1", "prometheus.example"), token="canary")
    with pytest.raises(LoadError, match="a token is not sent over HTTP") as refused:
        PrometheusSource(settings).read()
    assert prometheus.queries == []
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (requests.exceptions.Timeout("canary"), r": no answer within 5 s$"),
        (requests.exceptions.SSLError("certificate verify failed"), ": TLS verification failed \\("),
        (requests.exceptions.InvalidURL("canary"), r": InvalidURL$"),
        (OSError("canary"), r"^caFile None: cannot be read; mount it, or leave caFile out$"),
    ],
)
def test_what_the_library_raises_is_said_without_what_was_sent(
    prometheus: FakePrometheus, monkeypatch: pytest.MonkeyPatch, raised: Exception, says: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr(requests.Session, "request", fail)
    with pytest.raises(LoadError, match=says) as failed:
        source(prometheus, timeout_seconds=5.0).read()
    assert "canary" not in str(failed.value)


def test_a_request_follows_no_redirect_and_verifies_as_configured(
    prometheus: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[dict[str, object]] = []

    def note(*_: object, **request: object) -> None:
        options.append(request)
        raise requests.exceptions.Timeout

    monkeypatch.setattr(requests.Session, "request", note)
    for verified in (True, False):
        with pytest.raises(LoadError):
            source(prometheus, timeout_seconds=5.0, verify_tls=verified).read()
        assert options[-1]["verify"] is verified
    assert {(request["stream"], request["allow_redirects"], request["timeout"]) for request in options} == {
        (True, False, 5.0)
    }
