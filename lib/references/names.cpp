#include "references/block_type.h"
#include "references/root.h"

namespace heapsnap {

const char* to_string(RootKind kind) {
  switch (kind) {
    case RootKind::kVariable: return "variable";
    case RootKind::kThreadLocal: return "thread-local";
    case RootKind::kStack: return "stack";
    case RootKind::kRegister: return "register";
    case RootKind::kMapping: return "mapping";
    case RootKind::kGlobal: return "global";
    case RootKind::kLocal: return "local";
  }
  return "unknown";
}

uint64_t position_of(const RootPlace& place) {
  const bool is_at_offset = place.kind == RootKind::kThreadLocal && !place.module.empty();
  return is_at_offset ? place.module_offset : place.begin.value();
}

bool is_class_object(const BlockType& type) {
  if (type.source != TypeSource::kRuntime) return false;
  if (type.builtin.empty()) return type.part == kClassPart;
  return type.builtin == "CLASS" || type.builtin == "MODULE" || type.builtin == "ICLASS";
}

bool is_context_block(const BlockType& type) {
  return type.builtin.empty() && type.part == kContextPart;
}

const char* to_string(TypeSource source) {
  switch (source) {
    case TypeSource::kUnknown: return "unknown";
    case TypeSource::kVtable: return "vtable";
    case TypeSource::kStructure: return "structure";
    case TypeSource::kDebugInfo: return "debug-info";
    case TypeSource::kRuntime: return "runtime";
  }
  return "unknown";
}

}  // namespace heapsnap
