#include "elf/disassembler.h"

#include <capstone/capstone.h>

#include <algorithm>

#include "base/error.h"
#include "elf/instruction_reader.h"

namespace heapsnap {

namespace {

class Capstone {
 public:
  explicit Capstone(Machine machine) {
    const cs_arch arch = machine == Machine::kAarch64 ? CS_ARCH_ARM64 : CS_ARCH_X86;
    cs_mode mode = CS_MODE_64;
    if (machine == Machine::kAarch64) mode = CS_MODE_ARM;
    if (machine == Machine::kI386) mode = CS_MODE_32;
    const cs_err opened = cs_open(arch, mode, &handle_);
    if (opened != CS_ERR_OK) {
      throw Error(ErrorKind::kInternal, "cannot disassemble", cs_strerror(opened));
    }
    cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
    decoded_ = cs_malloc(handle_);
  }
  Capstone(const Capstone&) = delete;
  Capstone& operator=(const Capstone&) = delete;
  ~Capstone() {
    if (decoded_ != nullptr) cs_free(decoded_, 1);
    cs_close(&handle_);
  }

  csh handle() const { return handle_; }

  // The instruction at the start of `code`, valid until the next call; nullptr when there is none.
  const cs_insn* decode(std::span<const std::byte> code, uint64_t address) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(code.data());
    size_t size = code.size();
    if (decoded_ == nullptr || !cs_disasm_iter(handle_, &bytes, &size, &address, decoded_)) {
      return nullptr;
    }
    return decoded_;
  }

 private:
  csh handle_ = 0;
  cs_insn* decoded_ = nullptr;
};

}  // namespace

std::vector<Instruction> disassemble(Machine machine, std::span<const std::byte> code,
                                     uint64_t address, uint64_t got_base) {
  constexpr size_t kLongestCode = 1 << 20;
  code = code.first(std::min(code.size(), kLongestCode));
  Capstone capstone(machine);
  const auto reader = machine == Machine::kAarch64
                          ? make_aarch64_reader(capstone.handle())
                          : make_x86_reader(capstone.handle(), machine, got_base);
  std::vector<Instruction> instructions;
  while (!code.empty()) {
    Instruction instruction{.address = address};
    if (const cs_insn* insn = capstone.decode(code, address)) {
      instruction.size = static_cast<uint8_t>(insn->size);
      reader->read(*insn, instruction);
    } else if (!reader->read_unknown(code, instruction)) {
      break;
    }
    instructions.push_back(instruction);
    code = code.subspan(instruction.size);
    address += instruction.size;
  }
  return instructions;
}

}  // namespace heapsnap
