#include <iostream>
int main() {
  std::ios::sync_with_stdio(false);
  std::string op, pass_, dtype;
  std::int64_t m, n;
  int options;
  while (std::cin >> op >> pass_ >> m >> n >> dtype >> options) {
    const auto a = normbench::pick(op, pass_, m, n, dtype, options);
    std::cout << a.family;
    for (const auto& k : a.knobs)
      if (k.second != 0) std::cout << ' ' << k.first << '=' << k.second;
    std::cout << '\n';
  }
}
