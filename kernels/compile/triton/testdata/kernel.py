import os, signal, subprocess, sys, time
import triton

with open(os.environ["NORMBENCH_TEST_DIR"] + "/imports", "a") as f:
    f.write("x")


def tell(name, pid):
    with open(os.environ["NORMBENCH_TEST_DIR"] + "/" + name, "w") as f:
        f.write(str(pid))


@triton.jit
def f(how):
    if how == "exits":
        os._exit(3)
    if how == "faults":
        os.kill(os.getpid(), signal.SIGSEGV)
    if how == "raises":
        raise ValueError("no such layout")
    if how == "hangs":
        assembler = subprocess.Popen(["sleep", "60"])
        tell("assembler", assembler.pid)
        assembler.wait()
    if how == "slow":
        time.sleep(0.5)
    once = ("exits once", "kills", "waits", "waits again")
    if how in once and not os.path.exists(os.environ["NORMBENCH_TEST_DIR"] + "/" + how):
        tell(how, os.getpid())
        if how == "exits once":
            os._exit(3)
        if how == "kills":  # the process that has forked it
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    return b"\x7fELF " + how.encode()
