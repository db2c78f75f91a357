#include "runtime/runtime_model.h"

namespace heapsnap {

const char* to_string(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::kUnknown: return "unknown";
    case RuntimeKind::kPython: return "python";
    case RuntimeKind::kRuby: return "ruby";
  }
  return "unknown";
}

const char* name_of(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::kUnknown: return "a runtime of unknown kind";
    case RuntimeKind::kPython: return "Python";
    case RuntimeKind::kRuby: return "Ruby";
  }
  return "a runtime of unknown kind";
}

}  // namespace heapsnap
