"""The thread that writes the log: nothing waits for it, and nothing is lost in silence."""

import logging
import threading

from handspan.gateway.log.writer import LogWriter
from tests.waiting import WAIT


class Sink:
    """What was written."""

    def __init__(self) -> None:
        self.text = ""
        self.may_write = threading.Event()
        self.may_write.set()

    def write(self, data: bytes) -> None:
        assert self.may_write.wait(WAIT)
        self.text += data.decode()


def logger_of(writer: LogWriter) -> logging.Logger:
    made = logging.Logger("handspan.test", logging.DEBUG)
    made.addHandler(writer)
    return made


def test_lines_are_written_in_order_and_closing_writes_the_last() -> None:
    sink = Sink()
    writer = LogWriter(logging.Formatter("%(message)s"), sink.write, None)
    log = logger_of(writer)
    writer.open()
    for number in range(1000):
        log.info("line %d", number)
    writer.close()
    assert sink.text == "".join(f"line {number}\n" for number in range(1000))


def test_a_reader_that_does_not_read_holds_up_no_caller_and_what_is_lost_is_counted() -> None:
    sink = Sink()
    sink.may_write.clear()
    writer = LogWriter(logging.Formatter("%(message)s"), sink.write, None)
    log = logger_of(writer)
    writer.open()
    for number in range(12_000):
        log.info("line %d", number)
    sink.may_write.set()
    writer.close()
    assert "lines were not written: they came faster than they could be" in sink.text


def test_a_flood_of_one_kind_is_cut_and_other_lines_pass() -> None:
    sink = Sink()
    writer = LogWriter(logging.Formatter("%(levelname)s %(message)s"), sink.write, 3)
    log = logger_of(writer)
    writer.open()
    for number in range(500):
        log.info("refused %d", number)
    log.info("another")
    writer._second -= 1  # as if a second had passed
    log.info("later")
    writer.close()
    assert sink.text.count("INFO refused") <= 6 and "INFO another" in sink.text
    assert "more lines like this one were left out: refused %d" in sink.text


def test_a_record_that_can_not_be_formatted_is_named() -> None:
    class BrokenLines(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            raise ValueError

    sink = Sink()
    writer = LogWriter(BrokenLines(), sink.write)
    log = logger_of(writer)
    writer.open()
    log.info("x")
    writer.close()
    assert sink.text == "A line of handspan.test can't be written: ValueError\n"
