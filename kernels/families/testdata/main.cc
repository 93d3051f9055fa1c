#include <iostream>
int main() {
  std::ios::sync_with_stdio(false);
  std::string op, pass, dtype;
  std::int64_t m, n;
  int options;
  while (std::cin >> op >> pass >> m >> n >> dtype >> options) {
    std::optional<normbench::Launch> a;
    try {
      a = normbench::pick(op, pass, m, n, dtype, options);
    } catch (const std::invalid_argument&) {
      std::cout << "refused\n";
      continue;
    }
    if (a) {
      std::cout << a->family;
      PRINT
    }
    std::cout << '\n';
  }
}
