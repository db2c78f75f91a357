#include "elf/capstone_decoder.h"

#include <capstone/capstone.h>

#include "base/error.h"

namespace heapsnap {

CapstoneDecoder::CapstoneDecoder(Machine machine) {
  const cs_arch arch = machine == Machine::kAarch64 ? CS_ARCH_ARM64 : CS_ARCH_X86;
  cs_mode mode = CS_MODE_64;
  if (machine == Machine::kAarch64) mode = CS_MODE_ARM;
  if (machine == Machine::kI386) mode = CS_MODE_32;
  const cs_err opened = cs_open(arch, mode, &handle_);
  if (opened != CS_ERR_OK) {
    throw Error(ErrorKind::kInternal, "machine code cannot be disassembled", cs_strerror(opened));
  }
  cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
  decoded_ = cs_malloc(handle_);
}

CapstoneDecoder::~CapstoneDecoder() {
  if (decoded_ != nullptr) cs_free(decoded_, 1);
  cs_close(&handle_);
}

const cs_insn* CapstoneDecoder::decode(std::span<const std::byte> code, uint64_t address) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(code.data());
  size_t size = code.size();
  if (decoded_ == nullptr || !cs_disasm_iter(handle_, &bytes, &size, &address, decoded_)) {
    return nullptr;
  }
  return decoded_;
}

}  // namespace heapsnap
