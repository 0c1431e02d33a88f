"""How a process ended, in the shell's numbers and in words."""

import signal


def exit_code(status: int) -> int:
    """The shell's view of a return code: 128+n for signal n."""
    return 128 - status if status < 0 else status


def how_it_ended(status: int) -> str:
    """`exit code 3`, or `signal SIGKILL (9), exit code 137`."""
    if status >= 0:
        return f"exit code {status}"
    return f"signal {signal_name(-status)} ({-status}), exit code {exit_code(status)}"


def signal_name(number: int) -> str:
    """`SIGKILL`; `unknown` for one without a name, such as a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
