#include "tracker/slow_unwind.h"

#include "tracker/cfi.h"
#include "tracker/modules.h"
#include "tracker/table_layout.h"

namespace heapsnap::tracker {

namespace {

constexpr unsigned kExpressionDepth = 16;
constexpr unsigned kExpressionSteps = 256;
constexpr unsigned kOwnFramesAtMost = 32;

bool read_word(StackMemory& memory, uint64_t address, uint64_t& out) {
  if (!memory.is_readable(address)) return false;
  __builtin_memcpy(&out, reinterpret_cast<const void*>(address), 8);
  return true;
}

// The DWARF stack machine, as far as call frame information uses it.
class Expression {
 public:
  Expression(StackMemory& memory, const Registers& registers)
      : memory_(memory), registers_(registers) {}

  // `expression` points at its length. A first value is there for rules other than the CFA's.
  bool evaluate(const uint8_t* expression, const uint64_t* first, uint64_t& result) {
    CfiBytes head{expression, expression + 10};
    const uint64_t size = head.uleb();
    if (!head.ok || size > 4096) return false;
    CfiBytes code{head.at, head.at + size};
    if (first != nullptr) push(*first);
    for (unsigned steps = 0; code.at < code.end; ++steps) {
      if (steps == kExpressionSteps || !step(code) || !ok_ || !code.ok) return false;
    }
    result = pop();
    return ok_;
  }

 private:
  void push(uint64_t value) {
    if (depth_ == kExpressionDepth) {
      ok_ = false;
      return;
    }
    stack_[depth_++] = value;
  }
  uint64_t pop() {
    if (depth_ == 0) {
      ok_ = false;
      return 0;
    }
    return stack_[--depth_];
  }
  uint64_t value_of(uint64_t reg) {
    if (reg < kRegisterCount) return registers_.value[reg];
    ok_ = false;
    return 0;
  }

  bool binary(uint8_t op) {
    const uint64_t b = pop();
    const uint64_t a = pop();
    const auto x = static_cast<int64_t>(a);
    const auto y = static_cast<int64_t>(b);
    switch (op) {
      case 0x1a: push(a & b); return true;
      case 0x1c: push(a - b); return true;
      case 0x1e: push(a * b); return true;
      case 0x21: push(a | b); return true;
      case 0x22: push(a + b); return true;
      case 0x24: push(b < 64 ? a << b : 0); return true;
      case 0x25: push(b < 64 ? a >> b : 0); return true;
      case 0x27: push(a ^ b); return true;
      case 0x29: push(x == y ? 1 : 0); return true;
      case 0x2a: push(x >= y ? 1 : 0); return true;
      case 0x2b: push(x > y ? 1 : 0); return true;
      case 0x2c: push(x <= y ? 1 : 0); return true;
      case 0x2d: push(x < y ? 1 : 0); return true;
      case 0x2e: push(x != y ? 1 : 0); return true;
      default: return false;
    }
  }

  bool step(CfiBytes& code) {
    const auto op = code.take<uint8_t>();
    if (op >= 0x30 && op <= 0x4f) return push(op - 0x30U), true;
    if (op >= 0x50 && op <= 0x6f) return push(value_of(op - 0x50U)), true;
    if (op >= 0x70 && op <= 0x8f) {
      return push(value_of(op - 0x70U) + static_cast<uint64_t>(code.sleb())), true;
    }
    switch (op) {
      case 0x03: push(code.take<uint64_t>()); return true;
      case 0x06: {
        uint64_t word = 0;
        if (!read_word(memory_, pop(), word)) return false;
        push(word);
        return true;
      }
      case 0x08: push(code.take<uint8_t>()); return true;
      case 0x09: push(static_cast<uint64_t>(int64_t{code.take<int8_t>()})); return true;
      case 0x0a: push(code.take<uint16_t>()); return true;
      case 0x0b: push(static_cast<uint64_t>(int64_t{code.take<int16_t>()})); return true;
      case 0x0c: push(code.take<uint32_t>()); return true;
      case 0x0d: push(static_cast<uint64_t>(int64_t{code.take<int32_t>()})); return true;
      case 0x0e:
      case 0x0f: push(code.take<uint64_t>()); return true;
      case 0x10: push(code.uleb()); return true;
      case 0x11: push(static_cast<uint64_t>(code.sleb())); return true;
      case 0x12: {
        const uint64_t top = pop();
        push(top);
        push(top);
        return true;
      }
      case 0x13: pop(); return true;
      case 0x23: push(pop() + code.uleb()); return true;
      case 0x92: {
        const uint64_t reg = code.uleb();
        push(value_of(reg) + static_cast<uint64_t>(code.sleb()));
        return true;
      }
      case 0x96: return true;
      default: return binary(op);
    }
  }

  StackMemory& memory_;
  const Registers& registers_;
  uint64_t stack_[kExpressionDepth];
  unsigned depth_ = 0;
  bool ok_ = true;
};

// The caller's registers. `complete` when there is no caller.
bool apply(StackMemory& memory, const CfiRow& row, const Registers& now, Registers& caller,
           bool& complete) {
  complete = false;
  uint64_t cfa = 0;
  if (row.cfa_is_expression) {
    if (!Expression(memory, now).evaluate(row.cfa_expression, nullptr, cfa)) return false;
  } else {
    if (row.cfa_register >= kRegisterCount) return false;
    cfa = now.value[row.cfa_register] + static_cast<uint64_t>(row.cfa_offset);
  }
  for (unsigned reg = 0; reg < kRegisterCount; ++reg) {
    uint64_t& to = caller.value[reg];
    const auto operand = static_cast<uint64_t>(row.value[reg]);
    switch (row.rule[reg]) {
      case RegisterRule::kSame: to = reg == kRegisterRsp ? cfa : now.value[reg]; break;
      case RegisterRule::kUndefined:
        to = 0;
        if (reg == kReturnAddress) complete = true;
        break;
      case RegisterRule::kOffset:
        if (!read_word(memory, cfa + operand, to)) return false;
        break;
      case RegisterRule::kValueOffset: to = cfa + operand; break;
      case RegisterRule::kRegister:
        if (operand >= kRegisterCount) return false;
        to = now.value[operand];
        break;
      case RegisterRule::kExpression:
      case RegisterRule::kValueExpression:
        if (!Expression(memory, now)
                 .evaluate(reinterpret_cast<const uint8_t*>(operand), &cfa, to)) {
          return false;
        }
        if (row.rule[reg] == RegisterRule::kExpression && !read_word(memory, to, to)) return false;
        break;
    }
  }
  return true;
}

}  // namespace

__attribute__((noinline)) uint32_t slow_unwind(StackMemory& memory, uint64_t from_sp,
                                               PlainFrame* out, uint32_t room, uint32_t& root) {
  Registers now;
  capture_registers(now);
  uint32_t count = 0;
  bool is_exact = true;  // this pc is no return address
  bool is_outside = false;
  for (unsigned own = 0;;) {
    const uint64_t pc = now.value[kReturnAddress];
    is_outside = is_outside || now.value[kRegisterRsp] == from_sp;
    const uint64_t lookup = is_exact ? pc : pc - 1;
    if (is_outside) {
      if (pc == 0) {
        root = kRootComplete;
        return count;
      }
      if (count == room) {
        root = kRootDepthLimit;
        return count;
      }
      out[count++] = {pc, look_up_rule(lookup).module};
    } else if (++own > kOwnFramesAtMost) {
      root = kRootBadFrame;
      return count;
    }
    CfiFunction function;
    CfiRow row;
    if (!find_function(lookup, function)) {
      root = kRootNoUnwindInfo;
      return count;
    }
    Registers caller;
    bool complete = false;
    if (!cfi_row_at(function, lookup, row) || !apply(memory, row, now, caller, complete)) {
      root = kRootBadFrame;
      return count;
    }
    if (complete) {
      root = kRootComplete;
      return count;
    }
    is_exact = function.is_signal_frame;
    now = caller;
  }
}

}  // namespace heapsnap::tracker
