// What is true of cublasLt on the card at hand, in a few minutes:
//
//   lt_probe SHAPES.csv [heuristic] [numerics] [explore] [host]
//
// heuristic  is its first choice the same when pointers are only promised to be aligned to 16 bytes
//            in place of 256, and when sums in 16 bits are excluded; does a name make the very
//            algorithm again that the library proposed
// numerics   every kernel it proposes, against the host in double precision
// explore    how many kernels the search beyond its list finds in a second
// host       nanoseconds of Plan::Run, and of a bare cublasLtMatmul of the same kernel
//
// Without names: all four. Prints one line for each finding.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "lt_probe/probe.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: lt_probe SHAPES.csv [heuristic] [numerics] [explore] [host]\n");
    return 2;
  }
  using namespace tunableop::probe;
  const std::vector<Shape> shapes = ReadShapes(argv[1]);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was found before an end is not lost
  const auto wanted = [&](const char* name) {
    return argc == 2 || std::any_of(argv + 2, argv + argc,
                                    [&](const char* one) { return std::strcmp(one, name) == 0; });
  };
  const Card card = OpenCard();
  if (wanted("heuristic")) Heuristics(card, shapes);
  if (wanted("numerics")) Numerics(card);
  if (wanted("explore")) Exploring(card, shapes);
  if (wanted("host")) HostCost(card);
  return 0;
}
