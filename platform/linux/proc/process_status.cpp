#include "platform/linux/proc/process_status.h"

#include <array>
#include <bit>
#include <limits>

#include "platform/linux/proc/kernel_text.h"

namespace heapsnap {

namespace {

int to_pid(std::optional<uint64_t> number) {
  constexpr uint64_t kLargest = std::numeric_limits<int>::max();
  return number && *number <= kLargest ? static_cast<int>(*number) : 0;
}

ProcessIds parse_ids(std::string_view text, std::string_view key) {
  ProcessIds ids;
  std::string_view rest = status_field(text, key).value_or("");
  for (uint32_t* id : {&ids.real, &ids.effective, &ids.saved, &ids.filesystem}) {
    *id = static_cast<uint32_t>(parse_number(take_word(rest)).value_or(0));
  }
  return ids;
}

uint64_t parse_mask(std::string_view text, std::string_view key) {
  return parse_number(status_field(text, key).value_or(""), 16).value_or(0);
}

uint64_t bytes_or_zero(std::string_view text, std::string_view key) {
  return status_bytes(text, key).value_or(0);
}

bool are_all(const ProcessIds& ids, uint32_t id) {
  return ids.real == id && ids.effective == id && ids.saved == id;
}

// In the order of their numbers (include/uapi/linux/capability.h).
constexpr std::array<const char*, 41> kCapabilityNames = {
    // clang-format off
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID",
    "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW",
    "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT",
    "SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD",
    "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG",
    "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
    // clang-format on
};
constexpr int kNamesShown = 4;

}  // namespace

std::optional<ProcessStatus> parse_process_status(std::string_view text) {
  const std::optional<std::string_view> name = status_field(text, "Name");
  const std::optional<std::string_view> state = status_field(text, "State");
  if (!name || !state || state->empty()) return std::nullopt;

  ProcessStatus status;
  status.name = *name;
  status.state = state->front();
  status.pid = to_pid(status_number(text, "Pid"));
  status.thread_group = to_pid(status_number(text, "Tgid"));
  status.parent = to_pid(status_number(text, "PPid"));
  status.tracer = to_pid(status_number(text, "TracerPid"));
  status.uid = parse_ids(text, "Uid");
  status.gid = parse_ids(text, "Gid");
  std::string_view pids = status_field(text, "NSpid").value_or("");
  for (auto word = take_word(pids); !word.empty(); word = take_word(pids)) {
    status.namespace_pids.push_back(to_pid(parse_number(word)));
  }
  status.capabilities_permitted = parse_mask(text, "CapPrm");
  status.capabilities_effective = parse_mask(text, "CapEff");
  status.capabilities_bounding = parse_mask(text, "CapBnd");
  status.seccomp = parse_seccomp_mode(text);
  status.threads = status_number(text, "Threads").value_or(0);
  status.pending_signals = parse_mask(text, "SigPnd");
  status.shared_pending_signals = parse_mask(text, "ShdPnd");
  status.blocked_signals = parse_mask(text, "SigBlk");
  status.ignored_signals = parse_mask(text, "SigIgn");
  status.caught_signals = parse_mask(text, "SigCgt");
  status.has_memory = status_field(text, "VmSize").has_value();
  status.mapped = bytes_or_zero(text, "VmSize");
  status.rss = bytes_or_zero(text, "VmRSS");
  status.rss_anonymous = bytes_or_zero(text, "RssAnon");
  status.rss_file = bytes_or_zero(text, "RssFile");
  status.rss_shmem = bytes_or_zero(text, "RssShmem");
  status.swap = bytes_or_zero(text, "VmSwap");
  status.page_tables = bytes_or_zero(text, "VmPTE");
  const uint64_t data = bytes_or_zero(text, "VmData");
  const uint64_t stack = bytes_or_zero(text, "VmStk");
  status.writable = data > UINT64_MAX - stack ? UINT64_MAX : data + stack;
  status.locked = bytes_or_zero(text, "VmLck");
  status.hugetlb = bytes_or_zero(text, "HugetlbPages");
  // Since Linux 6.6: "shstk", "wrss", or nothing.
  std::string_view features = status_field(text, "x86_Thread_features").value_or("");
  for (auto word = take_word(features); !word.empty(); word = take_word(features)) {
    status.shadow_stack = status.shadow_stack || word == "shstk";
  }
  return status;
}

std::optional<ProcessStatus> read_process_status(const ProcFs& proc, int tid) {
  const auto text = proc.try_read(tid, "status");
  return text ? parse_process_status(*text) : std::nullopt;
}

bool owns(const ProcessStatus& self, const ProcessStatus& target) {
  return are_all(target.uid, self.uid.real) && are_all(target.gid, self.gid.real);
}

std::string capability_names(uint64_t bits) {
  std::string names;
  for (int shown = 0; bits != 0; ++shown, bits &= bits - 1) {
    if (!names.empty()) names += ", ";
    if (shown == kNamesShown) return names + "...";
    const auto number = static_cast<size_t>(std::countr_zero(bits));
    names += number < kCapabilityNames.size() ? std::string("CAP_") + kCapabilityNames[number]
                                              : "capability " + std::to_string(number);
  }
  return names;
}

}  // namespace heapsnap
