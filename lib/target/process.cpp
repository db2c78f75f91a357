#include "target/process.h"

namespace heapsnap {

const char* to_string(FreezeMethod method) {
  switch (method) {
    case FreezeMethod::kNone: return "none";
    case FreezeMethod::kFork: return "fork";
    case FreezeMethod::kStop: return "stop";
    case FreezeMethod::kCore: return "core";
  }
  return "unknown";
}

}  // namespace heapsnap
