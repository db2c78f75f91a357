#include "platform/linux/proc/container_path.h"

namespace heapsnap {

namespace {

// Removes the first component of a path and returns it.
std::string_view take_component(std::string_view& path) {
  const size_t slash = path.find('/');
  const std::string_view component = path.substr(0, slash);
  path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  return component;
}

bool take_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// The id in "docker-ID.scope", "cri-containerd-ID", "kubepods-pod1.slice:crio:ID", "ID".
std::string_view id_of_component(std::string_view component) {
  take_suffix(component, ".scope");
  if (component.size() < kContainerIdDigits) return {};
  const std::string_view before = component.substr(0, component.size() - kContainerIdDigits);
  const std::string_view id = component.substr(before.size());
  if (!is_hex(id)) return {};
  if (!before.empty() && before.back() != '-' && before.back() != ':') return {};
  return before.ends_with("conmon-") ? std::string_view() : id;
}

// The digits of "01234567-89ab-cdef-0123-456789abcdef", of the same with '_' as systemd has it, or
// without either, as the UIDs of static pods are; nothing where it is no UID.
std::optional<std::string> uid_digits(std::string_view text) {
  constexpr size_t kWithDashes = kPodUidDigits + 4;
  if (text.size() != kPodUidDigits && text.size() != kWithDashes) return std::nullopt;
  std::string digits;
  for (const char c : text) {
    if (c != '-' && c != '_') digits += c;
  }
  if (digits.size() != kPodUidDigits || !is_hex(digits)) return std::nullopt;
  return digits;
}

std::optional<std::string> uid_of_component(std::string_view component) {
  component = component.substr(0, component.find(':'));
  constexpr std::string_view kPod = "pod";
  if (take_suffix(component, ".slice")) {
    if (!component.starts_with("kubepods")) return std::nullopt;
    const size_t pod = component.rfind("-pod");
    if (pod == std::string_view::npos) return std::nullopt;
    component.remove_prefix(pod + 1);
  }
  if (!component.starts_with(kPod)) return std::nullopt;
  return uid_digits(component.substr(kPod.size()));
}

}  // namespace

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::string_view> container_ids(std::string_view path) {
  std::vector<std::string_view> ids;
  while (!path.empty()) {
    if (const std::string_view id = id_of_component(take_component(path)); !id.empty()) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::optional<std::string> pod_uid(std::string_view path) {
  while (!path.empty()) {
    if (auto uid = uid_of_component(take_component(path))) return uid;
  }
  return std::nullopt;
}

std::string to_pod_uid_text(const std::string& digits) {
  if (digits.size() != kPodUidDigits) return digits;
  return digits.substr(0, 8) + "-" + digits.substr(8, 4) + "-" + digits.substr(12, 4) + "-" +
         digits.substr(16, 4) + "-" + digits.substr(20);
}

}  // namespace heapsnap
