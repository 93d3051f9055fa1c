import sys
for line in sys.stdin:
    op, pass_, m, n, dtype, options = line.split()
    a = pick(op, pass_, int(m), int(n), dtype, int(options)) or {"family": ""}
    print(a.pop("family"), *("%s=%d" % (k, a[k]) for k in sorted(a) if a[k]))
