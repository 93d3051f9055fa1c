

class Name:
    """A type as torch.bfloat16 is one: no string, but with a name."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


for line in sys.stdin:
    op, pass_, m, n, dtype, options = line.split()
    try:
        a = pick(op, pass_, int(m), int(n), Name(dtype) if "torch" in dtype else dtype, int(options)) or {"family": ""}
    except ValueError:
        print("refused")
        continue
    print(a.pop("family"), *("%s=%d" % (k, a[k]) for k in sorted(a) if a[k]))
