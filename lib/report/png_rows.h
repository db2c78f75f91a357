// A PNG file that is written row by row, so that a picture need not be in memory as a whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/map_palette.h"
#include "report/writer.h"

namespace heapsnap {

class PngRows {
 public:
  // Keywords of the format ("Title", "Description") with what they say, UTF-8.
  using Texts = std::vector<std::pair<std::string, std::string>>;

  // All throw Error{kOutput}. `out` must outlive this.
  // `palette`: 256 colours at most.
  PngRows(unsigned width, unsigned height, std::span<const Paint> palette, const Texts& texts,
          Writer& out);
  ~PngRows();
  PngRows(const PngRows&) = delete;
  PngRows& operator=(const PngRows&) = delete;

  // `width` indices into the palette. To be called `height` times.
  void add(std::span<const uint8_t> row);
  // After the last row.
  void finish();

 private:
  struct State;
  void flush();

  std::unique_ptr<State> state_;
  Writer& out_;
};

}  // namespace heapsnap
