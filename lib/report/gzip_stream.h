// Bytes on their way into a Writer, compressed as a gzip file (RFC 1952) without name and time, so
// that the same bytes always give the same file.
#pragma once

#include <memory>
#include <string_view>

#include "report/writer.h"

namespace heapsnap {

class GzipStream {
 public:
  explicit GzipStream(Writer& out);
  ~GzipStream();

  // Throws as Writer::write().
  void write(std::string_view bytes);
  // To be called once, when all is written.
  void finish();

 private:
  struct State;

  void pump(int flush);

  Writer& out_;
  std::unique_ptr<State> state_;
};

}  // namespace heapsnap
