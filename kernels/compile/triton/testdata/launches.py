import ctypes, os, signal, sys, time
import triton
import triton.language as tl

with open(os.environ["NORMBENCH_TEST_DIR"] + "/imports", "a") as f:
    f.write("x")
COUNT = 0
print("imported")


def act(how):
    how = getattr(how, "value", how)
    if how == "exits":
        os.write(2, b"on its way")
        os._exit(5)
    if how == "leaves":
        sys.exit(6)
    if how == "faults":
        ctypes.string_at(0)
    if how == "raises":
        raise ValueError("no such row")
    if how == "prints":
        print("a row")
    if how in ("hangs", "hangs until it is closed", "hangs as an orphan"):
        with open(os.environ["NORMBENCH_TEST_DIR"] + "/" + how, "w") as f:
            f.write(str(os.getpid()))
        time.sleep(60)
    if how == "kills":  # the process that has forked it
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    global COUNT
    COUNT += 1
    return COUNT


@triton.jit
def f(Y, HOW: tl.constexpr):
    tl.store(Y, act(HOW))
    if HOW == "strays":
        tl.store(Y + 1, 0)
