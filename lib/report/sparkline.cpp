#include "report/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace heapsnap {

namespace {

constexpr std::array kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

}  // namespace

std::string sparkline(std::span<const std::optional<double>> values, std::span<const size_t> runs,
                      size_t width) {
  std::optional<double> low;
  std::optional<double> high;
  for (const auto& value : values) {
    if (!value) continue;
    low = std::min(low.value_or(*value), *value);
    high = std::max(high.value_or(*value), *value);
  }
  if (!low || width == 0) return {};
  size_t bars = 0;
  for (size_t i = 1; i < runs.size(); ++i) bars += runs[i] != runs[i - 1] ? 1 : 0;
  // Many restarts would leave no room for the figures.
  const bool has_bars = bars < width / 2;
  const size_t columns = std::min(values.size(), has_bars ? width - bars : width);
  std::string line;
  size_t last_shown = 0;
  for (size_t column = 0; column < columns; ++column) {
    const size_t index = (column + 1) * values.size() / columns - 1;
    if (has_bars && column > 0) {
      for (size_t i = last_shown + 1; i <= index; ++i) line += runs[i] != runs[i - 1] ? "|" : "";
    }
    last_shown = index;
    if (!values[index]) {
      line += ' ';
      continue;
    }
    const double share = *high > *low ? (*values[index] - *low) / (*high - *low) : 0;
    const auto block =
        static_cast<size_t>(std::lround(share * static_cast<double>(kBlocks.size() - 1)));
    line += kBlocks[std::min(block, kBlocks.size() - 1)];
  }
  return line;
}

}  // namespace heapsnap
