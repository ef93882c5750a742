"""What a trace says, from literal lines of `strace -ff -y`: nothing is run here."""

import pathlib
import re
import time

import pytest

from conformance.errors import FaultError
from conformance.faults.disk import pairing, trace
from conformance.faults.disk.trace import Clock, Operation

FILES = {"/j/1", "/j/2"}
ZERO = Clock(0)


def read(tmp_path, *threads, files=FILES):
    """Write one file for each thread: lines `SECONDS text`, and an end."""
    for number, lines in enumerate(threads, 1):
        text = "".join(f"{line}\n" for line in [*map(stamped, lines), "9.000000000 +++ exited with 0 +++"])
        (tmp_path / f"trace.{number}").write_text(text)
    return trace.read(tmp_path, ZERO, files)


def stamped(line):
    """Complete `1.5 write(...)`: nine decimals, a result, and a duration of 0.1 s unless it has one."""
    seconds, _, rest = line.partition(" ")
    ended = rest.startswith(("+", "-")) or rest.endswith("<unfinished ...>")
    rest = rest if " = " in rest or ended else f"{rest} = 0"
    timed = ended or rest.endswith(("?", "? <unavailable>")) or re.search(r"<[\d.]+>$", rest)
    return f"{float(seconds):.9f} {rest}{'' if timed else ' <0.100000000>'}"


def paired(found, marker=b"p1:1.", invoked=0):
    return pairing.pair_operations(found, [Operation("p1:1", invoked, marker)])[0]


def span(call):
    return (call.started_ns / 1e9, call.ended_ns / 1e9)


OPEN = '0.5 openat(AT_FDCWD</>, "/j/1", O_RDWR|O_CREAT, 0644) = 3</j/1>'
WRITE = '1 pwrite64(3</j/1>, "p1:1.p1:1.", 10, 0) = 10'
SYNC = "2 fdatasync(3</j/1>)"


def test_a_call_lies_between_its_stamps_on_the_clock_of_histories(tmp_path):
    """CLOCK_REALTIME minus the offset that was measured."""
    (tmp_path / "trace.7").write_bytes(
        b'1700000001.000000500 pwrite64(3</j/1>, "ab", 2, 0) = 2 <0.000000007>\n1700000002.000000000 +++ exited with 0 +++\n'
    )
    call = trace.read(tmp_path, Clock(1_700_000_000 * 10**9), FILES).calls[0]

    assert (call.thread, call.name, call.file) == (7, "pwrite64", "/j/1")
    assert (call.started_ns, call.ended_ns, call.result) == (1_000_000_500, 1_000_000_507, 2)


def test_octal_and_letter_escapes_are_bytes(tmp_path):
    found = read(tmp_path, [r'1 pwrite64(3</j/1>, "\0\23\1771\n\"\\<\377) = 5", 11, 0) = 11'])

    assert found.calls[0].sample == b'\x00\x13\x7f1\n"\\<\xff) = 5'[:11]


def test_a_vector_is_one_write(tmp_path):
    found = read(
        tmp_path, ['1 pwritev2(3</j/1>, [{iov_base="p1", iov_len=2}, {iov_base=":1.", iov_len=3}], 2, 0, 0) = 5']
    )

    assert (found.calls[0].sample, found.calls[0].whole) == (b"p1:1.", True)


def test_a_short_write_counts_only_its_written_bytes(tmp_path):
    found = read(tmp_path, [OPEN, '1 write(3</j/1>, "xxp1:1.", 7) = 4', SYNC])

    assert found.calls[1].sample == b"xxp1"
    assert paired(found).write is None


def test_a_path_may_hold_brackets_and_spaces(tmp_path):
    assert read(tmp_path, [r"1 fsync(3</j/a \74b\76>)"], files={"/j/a <b>"}).calls[0].file == "/j/a <b>"


def test_injected_errors_and_delays_differ_from_real_ones(tmp_path):
    calls = read(
        tmp_path,
        [
            "1 fsync(3</j/1>) = -1 EIO (Input/output error) (INJECTED)",
            "2 fsync(3</j/1>) = -1 EIO (Input/output error)",
            "3 fsync(3</j/1>) = 0 (DELAYED) <0.700000001>",
        ],
    ).calls

    assert [(call.error, call.injected, call.delayed) for call in calls] == [
        ("EIO", True, False),
        ("EIO", False, False),
        ("", False, True),
    ]
    assert calls[2].seconds == pytest.approx(0.700000001)


def test_calls_of_all_threads_are_in_one_order(tmp_path):
    found = read(tmp_path, ["2 fsync(3</j/1>)", "4 fsync(3</j/1>)"], ["3 fsync(3</j/1>)", "1 fsync(4</j/2>)"])

    assert [call.thread for call in found.calls] == [2, 1, 2, 1]
    assert (found.threads, found.lost) == (2, ())


def test_signals_and_calls_on_other_files_are_left_out(tmp_path):
    lines = ["1 --- SIGSEGV {si_signo=SIGSEGV} ---", "2 fsync(3</other>)", "3 --- stopped by SIGSTOP ---", "4 sync()"]

    assert [call.name for call in read(tmp_path, lines).calls] == ["sync"]


@pytest.mark.parametrize(
    "line",
    [
        "1.000000000 fsync(3</j/1>",
        "1.000000000 fsync(3</j/1> <unfinished ...>\n1.000000000 <... fsync resumed>) = 0 <0.100000000>",
        "1.000000000 <... fsync resumed>) = 0 <0.100000000>",
        "1.000000000 fsync(3</j/1>) = 0 and more <0.100000000>",
        "1.000000000 fsync(3</j/1>) = 0 <0.1>",
        "1.5 fsync(3</j/1>) = 0 <0.100000000>",
        "fsync(3</j/1>) = 0 <0.100000000>",
        "strace: something went wrong",
        "",
    ],
)
def test_a_foreign_line_is_an_error(tmp_path, line):
    """Nor are the halves of a call that `-f` writes into one file: `-ff` gives each thread its own."""
    (tmp_path / "trace.1").write_text(f"{line}\n2.000000000 +++ exited with 0 +++\n")

    with pytest.raises(FaultError, match=r"trace\.1, line 1: not a line of the tracer"):
        trace.read(tmp_path, ZERO, FILES)


def test_a_torn_last_line_and_a_missing_end_are_a_lost_tracer(tmp_path):
    (tmp_path / "trace.1").write_text("1.000000000 fsync(3</j/1>) = 0 <0.100000000>\n2.000000000 fsync(3</j/1>")
    (tmp_path / "trace.2").write_text("1.000000000 fsync(3</j/1>) = 0 <0.100000000>\n")
    (tmp_path / "trace.3").write_text("1.000000000 +++ killed by SIGKILL +++\n")
    found = trace.read(tmp_path, ZERO, FILES)

    assert found.lost == ("trace.1", "trace.2")
    assert len(found.calls) == 2


@pytest.mark.parametrize("unknown", [") = ?", ") = ? <unavailable>", " <unfinished ...>"])
def test_a_thread_that_died_in_a_call_left_it_without_an_end(tmp_path, unknown):
    """The others where it died before the tracer could read the result, or see the end (strace 6.1, seen once each)."""
    found = read(tmp_path, [OPEN, WRITE, f"2 fdatasync(3</j/1>{unknown}"])

    assert (found.calls[2].ended_ns, found.calls[2].done, found.calls[2].failed) == (None, False, False)
    assert paired(found).sync is None


def test_a_thread_that_died_at_the_entry_of_a_call_did_not_make_it(tmp_path):
    """The tracer could not read which call it was (strace 6.1, seen once in many runs)."""
    (tmp_path / "trace.1").write_text("1.000000000 ???( <unfinished ...>\n2.000000000 +++ killed by SIGKILL +++\n")
    found = trace.read(tmp_path, ZERO, FILES)

    assert (found.calls, found.threads, found.lost) == ((), 1, ())


@pytest.mark.parametrize(("signal", "lost"), [("SIGCHLD", ()), ("SIGSTOP", ("trace.1",))])
def test_a_thread_that_died_at_a_signal_has_no_other_end(tmp_path, signal, lost):
    """A signal without its sender is one of a thread that is gone (strace 6.1, seen once); a stop may go on."""
    (tmp_path / "trace.1").write_text(f"1.000000000 --- stopped by {signal} ---\n")

    assert lost == trace.read(tmp_path, ZERO, FILES).lost


def test_the_clock_of_the_machine_may_not_be_stepped():
    before = Clock(5_000_000)

    assert before.steady(Clock(5_900_000)) is before
    with pytest.raises(FaultError, match=r"clock was stepped by -2\.0 ms"):
        before.steady(Clock(3_000_000))


def test_the_offset_of_the_clocks_is_measured():
    before, after = time.time_ns() - time.monotonic_ns(), Clock.now().offset_ns

    assert abs(after - before) < trace.STEP_NS


def test_a_sync_after_the_write_covers_it(tmp_path):
    pair = paired(read(tmp_path, [OPEN, WRITE, SYNC]))

    assert (span(pair.write), span(pair.sync), pair.failed) == ((1, 1.1), (2, 2.1), None)


HELD = "2 fdatasync(3</j/1>) = 0 (DELAYED) <0.700000000>"
RANGE = "2 sync_file_range(3</j/1>, 0, 0, SYNC_FILE_RANGE_WRITE|SYNC_FILE_RANGE_WAIT_AFTER)"
OTHER = '0.6 openat(AT_FDCWD</>, "/j/2", O_RDWR|O_DSYNC) = 3</j/2>'


@pytest.mark.parametrize(
    ("lines", "others", "sync"),
    [
        ([OPEN, WRITE], ["1.5 fsync(3</j/1>)"], (1.5, 1.6)),  # by another thread
        ([OPEN, WRITE, "2 sync()"], [], (2, 2.1)),
        ([OPEN, WRITE, "2 syncfs(9</elsewhere>)"], [], (2, 2.1)),
        ([OPEN, WRITE, HELD], [], (2, 2.7)),
        ([OPEN, WRITE, HELD.replace("2 ", "1.5 ", 1).replace("<0.7", "<3.0")], [SYNC], (2, 2.1)),  # the first to end
        ([OPEN, WRITE, "2 fdatasync(4</j/2>)"], [], None),  # of another file
        ([OPEN, WRITE, RANGE], [], None),  # it writes neither the file's size nor the device's cache
        ([OPEN.replace("O_CREAT", "O_DIRECT"), WRITE], [], None),  # past the page cache, not the device's cache
        ([OPEN, OTHER, WRITE], [], None),  # the number of a descriptor that was used again
        ([OPEN, WRITE, '1.5 rename("/j/1", "/j/2")', "2 fsync(3</j/2>)"], [], (2, 2.1)),
        ([OPEN, WRITE, '1.5 rename("/j/2", "/j/1")', SYNC], [], None),
    ],
)
def test_which_sync_covers_a_write(tmp_path, lines, others, sync):
    pair = paired(read(tmp_path, lines, others))

    assert (sync, HELD in lines) == (pair.sync and span(pair.sync), pair.sync is not None and pair.sync.delayed)


def test_a_sync_that_began_before_the_write_ended_does_not_cover_it(tmp_path):
    """Sync begins, write begins and ends, sync ends: its pages may have been gathered before."""
    held = HELD.replace("2 ", "0.9 ", 1)

    assert paired(read(tmp_path, [OPEN, WRITE], [held])).sync is None
    assert span(paired(read(tmp_path, [OPEN, WRITE], [held, SYNC])).sync) == (2, 2.1)


def test_a_failed_sync_covers_no_write_and_is_reported(tmp_path):
    """A later sync that succeeds is reported too: the judge decides about it."""
    failed = "2 fdatasync(3</j/1>) = -1 EIO (Input/output error) (INJECTED)"
    alone, again = read(tmp_path, [OPEN, WRITE, failed]), read(tmp_path, [OPEN, WRITE, failed, "3 fdatasync(3</j/1>)"])

    assert (paired(alone).sync, paired(alone).failed.error) == (None, "EIO")
    assert (span(paired(again).sync), span(paired(again).failed)) == ((3, 3.1), (2, 2.1))


def test_a_sync_that_fails_after_a_good_one_is_of_no_concern(tmp_path):
    later = "3 fdatasync(3</j/1>) = -1 EIO (Input/output error) (INJECTED)"

    assert paired(read(tmp_path, [OPEN, WRITE, SYNC, later])).failed is None


def test_a_failed_write_is_reported_and_the_next_one_counts(tmp_path):
    failed = '0.9 pwrite64(3</j/1>, "p1:1.", 5, 0) = -1 ENOSPC (No space left on device) (INJECTED)'
    alone, again = read(tmp_path, [OPEN, failed]), read(tmp_path, [OPEN, failed, WRITE, SYNC])

    assert (paired(alone).write, paired(alone).failed.error) == (None, "ENOSPC")
    assert (span(paired(again).write), paired(again).failed.name) == ((1, 1.1), "pwrite64")


@pytest.mark.parametrize("flag", ["O_DSYNC", "O_SYNC"])
def test_a_write_to_a_descriptor_that_syncs_each_is_its_own_sync(tmp_path, flag):
    found = read(tmp_path, [OPEN.replace("O_CREAT", f"O_CREAT|{flag}"), WRITE])

    assert paired(found).sync is paired(found).write


def test_a_write_may_ask_for_its_own_sync(tmp_path):
    write = '1 pwritev2(3</j/1>, [{iov_base="p1:1.", iov_len=5}], 1, 0, RWF_DSYNC) = 5'
    pair = paired(read(tmp_path, [OPEN, write]))

    assert pair.sync is pair.write
    assert paired(read(tmp_path, [OPEN, write.replace("RWF_DSYNC", "RWF_HIPRI")])).sync is None


def test_a_duplicate_of_a_descriptor_has_its_flags(tmp_path):
    lines = [OPEN.replace("O_CREAT", "O_DSYNC"), "0.7 dup(3</j/1>) = 8</j/1>", WRITE.replace("(3<", "(8<")]

    assert paired(read(tmp_path, lines)).sync is not None


def test_a_write_before_the_send_does_not_hold_it(tmp_path):
    """A journal that is compacted holds the bodies of the past again."""
    assert paired(read(tmp_path, [OPEN, WRITE, SYNC]), invoked=1_000_000_001).write is None


def test_an_operation_without_a_mark_is_in_the_first_write(tmp_path):
    assert span(paired(read(tmp_path, [OPEN, WRITE, SYNC]), marker=None).write) == (1, 1.1)


def test_a_write_after_the_next_request_may_belong_to_that(tmp_path):
    """A commit without a write before the next request is unknown, and no violation."""
    found = read(tmp_path, [OPEN, WRITE, SYNC])
    bounded = [Operation("t1", 0, transaction=True, until_ns=until) for until in (999_999_999, 1_000_000_001)]

    assert [pair.write is not None for pair in pairing.pair_operations(found, bounded)] == [False, True]


def test_an_index_that_is_never_synced_does_not_weaken_the_log(tmp_path):
    index = ['0.6 openat(AT_FDCWD</>, "/j/2", O_RDWR) = 4</j/2>', '0.9 write(4</j/2>, "p1:1.", 5) = 5']
    pair = paired(read(tmp_path, [OPEN, *index, WRITE, SYNC]))

    assert (pair.write.file, span(pair.sync)) == ("/j/1", (2, 2.1))


def test_text_that_is_kept_as_utf_16_is_found(tmp_path):
    """Artemis stores STOMP texts in UTF-16, in either byte order."""
    wide = WRITE.replace('"p1:1.p1:1."', r'"p\0001\0:\0001\0.\0"')

    assert paired(read(tmp_path, [OPEN, wide])).write is not None


@pytest.mark.parametrize(
    "cut",
    [
        '0.9 pwrite64(3</j/1>, "p1:0."..., 9000, 0) = 9000',
        '0.9 writev(3</j/1>, [{iov_base="p1:0.", iov_len=5}, ...], 9000) = 90000',
    ],
)
def test_a_write_that_is_only_shown_in_part_may_hold_it(tmp_path, cut):
    """A later match may be a copy, so the operation is unknown."""
    pair = paired(read(tmp_path, [OPEN, cut, WRITE, SYNC]))

    assert (pair.write, pair.sync) == (None, None)
    assert pair.unseen.endswith(" 1: only its first 5 bytes were shown")


def test_the_zeros_of_a_new_file_hold_no_message(tmp_path):
    fill = r'0.9 pwrite64(3</j/1>, "\0\0\0"..., 9000, 0) = 9000'

    assert paired(read(tmp_path, [OPEN, fill, WRITE, SYNC])).unseen == ""


def reasons(found, marker=b"p1:1."):
    return pairing.unseen(found, pairing.pair_operations(found, [Operation("p1:1", 0, marker)]))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 4</j/2>, 0) = 0x7f0000000000", "2 is mapped"),
        ("1 io_uring_setup(4, {flags=0}) = 5<anon_inode:[io_uring]>", "io_uring"),
        ("1 io_uring_enter(5<anon_inode:[io_uring]>, 1, 0, 0, NULL, 8) = 1", "io_uring"),
        ("1 copy_file_range(9</other>, NULL, 3</j/1>, NULL, 10, 0) = 10", "copy_file_range to 1"),
        ("1 sendfile(3</j/1>, 9</other>, NULL, 10) = 10", "sendfile to 1"),
        (
            '1 io_submit(0x7f, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=3</j/1>, aio_buf="p1:1."}]) = 1',
            "io_submit:PWRITE 1: no call of the broker returned its completion",
        ),
        (
            "1 io_submit(0x7f, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_FDSYNC, aio_fildes=3</j/1>}]) = 1",
            "io_submit:FDSYNC 1: no call of the broker returned its completion",
        ),
    ],
)
def test_hidden_writes_are_a_reason(tmp_path, call, reason):
    found = reasons(read(tmp_path, [OPEN, call, WRITE, SYNC]))

    assert [True] == [reason in text for text in found]


@pytest.mark.parametrize(
    "call",
    [
        SYNC,
        "1 mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3</j/1>, 0) = 0x7f0000000000",
        "1 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE, 3</j/1>, 0) = 0x7f0000000000",
        "1 sendfile(9<socket:[1]>, 3</j/1>, NULL, 10) = 10",
        "1 io_submit(0x7f, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3</j/1>, aio_buf=0x7f}]) = 1",
    ],
)
def test_syncs_and_reads_are_no_reason(tmp_path, call):
    assert reasons(read(tmp_path, [OPEN, call, WRITE, SYNC])) == []


def submitted(second, *requests, context="0x7f", result=None):
    """An `io_submit` of requests `NAME DATA`, each of a write of p1:1."""
    shown = ", ".join(
        f"{{aio_data={data}, aio_lio_opcode=IOCB_CMD_{name}, aio_fildes=3</j/1>"
        + (', aio_buf="p1:1.", aio_nbytes=5, aio_offset=0}' if name == "PWRITE" else "}")
        for name, data in map(str.split, requests)
    )
    return f"{second} io_submit({context}, {len(requests)}, [{shown}]) = {result or len(requests)}"


def returned(second, *events, context="0x7f"):
    """An `io_getevents` that has waited for 0.1 s, and returns events `DATA RESULT`."""
    shown = ", ".join(f"{{data={data}, obj=0x7f01, res={res}, res2=0}}" for data, res in map(str.split, events))
    return f"{second} io_getevents({context}, 1, 8, [{shown}], NULL) = {len(events)}"


def test_a_write_of_libaio_ends_when_it_is_returned_as_complete(tmp_path):
    """Of Artemis one thread submits, and another one waits for completions, and syncs: also before the submission ends."""
    submits = [OPEN, submitted(1, "PWRITE 0x1") + " <0.900000000>"]
    found = read(tmp_path, submits, [returned(0.9, "0x1 5"), "1.2 fdatasync(3</j/1>)"])

    assert (span(paired(found).write), paired(found).write.sample) == ((1, 1.0), b"p1:1.")
    assert span(paired(found).sync) == (1.2, 1.3)
    assert reasons(found) == []


def test_a_sync_before_the_completion_of_a_write_of_libaio_does_not_cover_it(tmp_path):
    """It may have reached the disk before the write did."""
    found = read(tmp_path, [OPEN, submitted(1, "PWRITE 0x1"), "1.2 fdatasync(3</j/1>)", returned(2, "0x1 5")])

    assert (span(paired(found).write), paired(found).sync) == ((1, 2.1), None)


@pytest.mark.parametrize(
    ("opened", "lines", "sync"),
    [
        ("O_DIRECT|O_DSYNC", [submitted(1, "PWRITE 0x1"), returned(2, "0x1 5")], (1, 2.1)),
        ("O_DIRECT", [submitted(1, "PWRITE 0x1"), returned(2, "0x1 5")], None),
        (
            "O_DIRECT",
            [submitted(1, "PWRITE 0x1"), returned(2, "0x1 5"), submitted(3, "FDSYNC 0x2"), returned(4, "0x2 0")],
            (3, 4.1),
        ),
        (
            "O_DIRECT",
            [submitted(1, "PWRITE 0x1", "FDSYNC 0x2"), returned(2, "0x1 5", "0x2 0")],
            None,  # both at once: the sync does not wait for the write
        ),
        (
            "O_DIRECT",
            [submitted(1, "PWRITE 0x1").replace("aio_lio", "aio_rw_flags=RWF_DSYNC, aio_lio"), returned(2, "0x1 5")],
            (1, 2.1),
        ),
    ],
)
def test_what_syncs_a_write_of_libaio(tmp_path, opened, lines, sync):
    found = read(tmp_path, [OPEN.replace("O_CREAT", opened), *lines])

    assert (paired(found).sync and span(paired(found).sync), reasons(found)) == (sync, [])


def test_a_write_of_libaio_fails_at_its_submission_or_at_its_completion(tmp_path):
    refused = submitted(1, "PWRITE 0x1", result="-1 EIO (Input/output error) (INJECTED)")
    later = [submitted(1, "PWRITE 0x1"), returned(2, "0x1 -28")]
    one, other = (paired(read(tmp_path, [OPEN, *lines])) for lines in ([refused], later))

    assert (one.write, one.failed.error, one.failed.injected) == (None, "EIO", True)
    assert (other.write, other.failed.error, span(other.failed)) == (None, "ENOSPC", (1, 2.1))


@pytest.mark.parametrize(("until", "seen"), [(2.9, True), (3.1, False)])
def test_a_write_of_libaio_that_no_thread_could_ask_for_was_under_way(tmp_path, until, seen):
    """The thread that reads completions is in a sync that began before, and dies in it: or it may have read this one."""
    reader = [returned(1.5, "0x1 5"), f"{until} fdatasync(3</j/1>) = ? <unavailable>"]
    lines = [OPEN, submitted(1, "PWRITE 0x1").replace("p1:1.", "p1:0."), submitted(3, "PWRITE 0x2")]
    pair = paired(read(tmp_path, lines, reader))

    assert (pair.write is not None, bool(pair.unseen), pair.sync) == (seen, not seen, None)


@pytest.mark.parametrize(("following", "ended"), [(1.2, 1.15), (1.1, None)])
def test_a_completion_may_seem_to_end_before_its_request_begins(tmp_path, following, ended):
    """The tracer lost its processor between the stamp and the timer; the next call of the thread is stamped again."""
    reader = [returned(1, "0x1 5"), f"{following} fdatasync(3</j/1>)"]
    request = read(tmp_path, [OPEN, submitted(1.15, "PWRITE 0x1")], reader).calls[-1 if ended is None else 1]

    assert (request.name, request.ended_ns and request.ended_ns / 1e9) == ("io_submit:PWRITE", ended)


def test_a_request_that_the_kernel_did_not_take_is_none(tmp_path):
    found = read(tmp_path, [OPEN, submitted(1, "FDSYNC 0x1", "PWRITE 0x2", result=1), returned(2, "0x1 0")])

    assert [call.name for call in found.calls] == ["openat", "io_submit:FDSYNC"]


def test_requests_of_the_same_data_are_not_matched(tmp_path):
    """One of two is complete, and it may be either. A third one, which is under way alone, has an end."""
    lines = [submitted(1, "PWRITE 0"), submitted(2, "PWRITE 0"), returned(3, "0 5"), returned(4, "0 5")]
    found = read(
        tmp_path,
        [OPEN, *lines, submitted(5, "PWRITE 0"), submitted(5.5, "PWRITE 0", context="0x8f"), returned(6, "0 5")],
    )

    assert [call.ended_ns and call.ended_ns / 1e9 for call in found.calls[1:]] == [None, None, 6.1, None]
    assert "no call of the broker returned its completion" in paired(found).unseen


def test_a_write_of_a_vector_by_libaio_is_shown(tmp_path):
    line = (
        "1 io_submit(0x7f, 1, [{aio_data=0x1, aio_lio_opcode=IOCB_CMD_PWRITEV, aio_fildes=3</j/1>, "
        'aio_buf=[{iov_base="p1", iov_len=2}, {iov_base=":1.", iov_len=3}], aio_offset=0}]) = 1'
    )

    assert paired(read(tmp_path, [OPEN, line, returned(2, "0x1 5")])).write.sample == b"p1:1."


MAP = "0.6 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 3</j/1>, 0) = 0x7f0000000000"
MSYNC = "1 msync(0x7f0000001000, 4096, MS_SYNC)"


@pytest.mark.parametrize(
    ("lines", "sync"),
    [
        ([MAP, MSYNC], (1, 1.1)),
        ([MAP, "1 fsync(3</j/1>)"], (1, 1.1)),
        ([MAP, MSYNC.replace("1 ", "0.65 ", 1)], None),  # it began before the message was sent
        ([MAP, MSYNC.replace("MS_SYNC", "MS_ASYNC")], None),
        ([MAP, MSYNC.replace("7f0000001000", "7f0000002000")], None),  # past its end
        ([MAP, "0.65 mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 9</other>, 0) = 0x7f0000000000", MSYNC], None),
    ],
)
def test_a_sync_of_mapped_memory_may_hold_what_was_sent_before(tmp_path, lines, sync):
    pair = paired(read(tmp_path, [OPEN, *lines]), invoked=700_000_000)

    assert (pair.sync and span(pair.sync), pair.write) == (sync, pair.sync)


def test_a_sync_of_mapped_memory_that_fails_is_reported(tmp_path):
    failed = MSYNC + " = -1 EIO (Input/output error) (INJECTED)"
    pair = paired(read(tmp_path, [OPEN, MAP, failed]))

    assert (pair.write, pair.failed.error) == (None, "EIO")
    assert reasons(read(tmp_path, [OPEN, MAP, failed])) == []


def test_a_sync_of_mapped_memory_beside_writes_is_unknown(tmp_path):
    """A log that is written, and something that is mapped: which of the two holds the message is not seen."""
    write = '1 pwrite64(4</j/2>, "p1:1.", 5, 0) = 5'
    log = [OPEN, '0.5 openat(AT_FDCWD</>, "/j/2", O_RDWR) = 4</j/2>', MAP]
    sooner, later = ([*log, write, f"{at} msync(0x7f0000000000, 8192, MS_SYNC)"] for at in (1.5, 3))

    assert "1 is mapped" in paired(read(tmp_path, [*sooner, "2 fsync(4</j/2>)"])).unseen
    assert span(paired(read(tmp_path, [*later, "2 fsync(4</j/2>)"])).sync) == (2, 2.1)
    assert "1 is mapped" in paired(read(tmp_path, [*later, "4 fsync(4</j/2>)"])).unseen
    assert "1 is mapped" in paired(read(tmp_path, sooner), marker=b"p9:9.").unseen


def test_a_descriptor_without_an_open_in_the_trace_may_sync_each_write(tmp_path):
    assert [True] == ["O_DSYNC" in text for text in reasons(read(tmp_path, [WRITE, SYNC]))]


def test_a_journal_without_any_body_is_a_reason(tmp_path):
    """The journal may be compressed. A journal without any write is no reason: it has not stored the messages."""
    assert [True] == ["was recognised" in text for text in reasons(read(tmp_path, [OPEN, WRITE, SYNC]), b"p9:9.")]
    assert reasons(read(tmp_path, [OPEN, SYNC]), b"p9:9.") == []


def test_a_folder_without_traces_has_no_thread():
    assert trace.read(pathlib.Path("/nonexistent"), ZERO, FILES).threads == 0
