// The functions of Capstone that heapsnap calls. They are here, and lead to libcapstone, which the
// first call of cs_open() loads: 1.3 MiB of its tables hold addresses, which the dynamic linker
// writes. Linked in, they would be there before main(), and heapsnap is not the OOM killer's first
// victim before that: in a group that has no more left, the target would be.
#include <capstone/capstone.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <new>
#include <string>

#include "base/error.h"

namespace heapsnap {

namespace {

struct Capstone {
  decltype(cs_open)* open = nullptr;
  decltype(cs_close)* close = nullptr;
  decltype(cs_option)* option = nullptr;
  decltype(cs_strerror)* strerror = nullptr;
  decltype(cs_malloc)* malloc = nullptr;
  decltype(cs_free)* free = nullptr;
  decltype(cs_disasm_iter)* disasm_iter = nullptr;
  decltype(cs_insn_group)* insn_group = nullptr;
  decltype(cs_reg_name)* reg_name = nullptr;
  decltype(cs_regs_access)* regs_access = nullptr;
};

[[noreturn]] void refuse_library() {
  const char* const text = ::dlerror();
  throw Error(ErrorKind::kUnsupported, "machine code cannot be disassembled",
              text != nullptr ? text : "libcapstone cannot be loaded",
              fmt::format("apt-get install --reinstall libcapstone{}", CS_API_MAJOR));
}

template <typename Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) refuse_library();
}

Capstone load_capstone() {
  // The one whose header this is. Never unloaded: decoders come and go.
  const std::string name = fmt::format("libcapstone.so.{}", CS_API_MAJOR);
  void* const library = ::dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    // glibc's text of a mapping that failed does not say why (2.36: "failed to map segment from
    // shared object").
    if (errno == ENOMEM) throw std::bad_alloc();
    refuse_library();
  }
  Capstone capstone;
  look_up(library, "cs_open", capstone.open);
  look_up(library, "cs_close", capstone.close);
  look_up(library, "cs_option", capstone.option);
  look_up(library, "cs_strerror", capstone.strerror);
  look_up(library, "cs_malloc", capstone.malloc);
  look_up(library, "cs_free", capstone.free);
  look_up(library, "cs_disasm_iter", capstone.disasm_iter);
  look_up(library, "cs_insn_group", capstone.insn_group);
  look_up(library, "cs_reg_name", capstone.reg_name);
  look_up(library, "cs_regs_access", capstone.regs_access);
  return capstone;
}

const Capstone& loaded() {
  static const Capstone capstone = load_capstone();
  return capstone;
}

}  // namespace

}  // namespace heapsnap

cs_err cs_open(cs_arch arch, cs_mode mode, csh* handle) {
  return heapsnap::loaded().open(arch, mode, handle);
}

cs_err cs_close(csh* handle) {
  return heapsnap::loaded().close(handle);
}

cs_err cs_option(csh handle, cs_opt_type type, size_t value) {
  return heapsnap::loaded().option(handle, type, value);
}

const char* cs_strerror(cs_err code) {
  return heapsnap::loaded().strerror(code);
}

cs_insn* cs_malloc(csh handle) {
  return heapsnap::loaded().malloc(handle);
}

void cs_free(cs_insn* insn, size_t count) {
  heapsnap::loaded().free(insn, count);
}

bool cs_disasm_iter(csh handle, const uint8_t** code, size_t* size, uint64_t* address,
                    cs_insn* insn) {
  return heapsnap::loaded().disasm_iter(handle, code, size, address, insn);
}

bool cs_insn_group(csh handle, const cs_insn* insn, unsigned int group_id) {
  return heapsnap::loaded().insn_group(handle, insn, group_id);
}

const char* cs_reg_name(csh handle, unsigned int reg_id) {
  return heapsnap::loaded().reg_name(handle, reg_id);
}

cs_err cs_regs_access(csh handle, const cs_insn* insn, cs_regs regs_read, uint8_t* regs_read_count,
                      cs_regs regs_write, uint8_t* regs_write_count) {
  return heapsnap::loaded().regs_access(handle, insn, regs_read, regs_read_count, regs_write,
                                        regs_write_count);
}
