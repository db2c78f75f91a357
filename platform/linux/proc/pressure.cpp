#include "platform/linux/proc/pressure.h"

#include <charconv>
#include <string>

#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

std::optional<double> parse_pressure(std::string_view text) {
  constexpr std::string_view kKey = "avg10=";
  while (const auto line = take_line(text)) {
    std::string_view rest = *line;
    if (take_word(rest) != "some") continue;
    for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
      if (!word.starts_with(kKey)) continue;
      word.remove_prefix(kKey.size());
      double percent = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), percent);
      const bool is_share = error == std::errc() && end == word.data() + word.size() &&
                            percent >= 0 && percent <= 100;
      return is_share ? std::optional(percent) : std::nullopt;
    }
  }
  return std::nullopt;
}

Pressure read_pressure(const KernelFiles& files) {
  const auto read = [&](const char* resource) {
    return parse_pressure(kernel_text_or_empty(files.proc + "/pressure/" + resource));
  };
  return {read("memory"), read("io"), read("cpu")};
}

}  // namespace heapsnap
