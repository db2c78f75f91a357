#include "runtime/runtime_model.h"

namespace heapsnap {

const char* to_string(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::kUnknown: return "unknown";
    case RuntimeKind::kPython: return "python";
    case RuntimeKind::kRuby: return "ruby";
    case RuntimeKind::kPostgres: return "postgresql";
  }
  return "unknown";
}

const char* name_of(RuntimeKind kind) {
  switch (kind) {
    case RuntimeKind::kUnknown: return "a runtime of unknown kind";
    case RuntimeKind::kPython: return "Python";
    case RuntimeKind::kRuby: return "Ruby";
    case RuntimeKind::kPostgres: return "PostgreSQL";
  }
  return "a runtime of unknown kind";
}

const char* to_string(ContextKind kind) {
  switch (kind) {
    case ContextKind::kUnknown: return "unknown";
    case ContextKind::kAllocSet: return "AllocSet";
    case ContextKind::kGeneration: return "Generation";
    case ContextKind::kSlab: return "Slab";
    case ContextKind::kBump: return "Bump";
  }
  return "unknown";
}

}  // namespace heapsnap
