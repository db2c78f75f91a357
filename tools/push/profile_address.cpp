#include "tools/push/profile_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"

namespace heapsnap {

namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/").find(c) != std::string_view::npos;
}

std::string replaced(std::string text, bool (*stays)(char)) {
  std::replace_if(
      text.begin(), text.end(), [stays](char c) { return !stays(c); }, '_');
  return text;
}

// What neither ends a value nor is invisible.
bool is_value_character(char c) {
  return static_cast<unsigned char>(c) > ' ' && c != '\x7f' &&
         std::string_view(",{}=\"").find(c) == std::string_view::npos;
}

bool is_label_key(std::string_view key) {
  return !key.empty() && key.size() <= 64 && (key[0] < '0' || key[0] > '9') &&
         std::all_of(key.begin(), key.end(),
                     [](char c) { return is_name_character(c) && c != '-' && c != '/'; });
}

std::string percent_encoded(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (is_name_character(c) && c != '/') {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

[[noreturn]] void refuse_address(const std::string& why, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, "--to", why, remedy);
}

}  // namespace

ProfileName profile_name(const SnapshotMetadata& metadata, const std::string& service,
                         const ProfileLabels& more) {
  const Process& process = metadata.process;
  ProfileName name{service.empty() ? target_name(metadata) : service, {}};
  name.labels = {{"host", process.hostname}, {"pid", std::to_string(process.pid)}};
  if (!process.build_id.empty()) name.labels.emplace_back("build_id", process.build_id);
  for (const auto& [key, value] : more) {
    const auto same = [&key = key](const auto& label) { return label.first == key; };
    const auto known = std::find_if(name.labels.begin(), name.labels.end(), same);
    if (known == name.labels.end()) {
      name.labels.emplace_back(key, value);
    } else {
      known->second = value;
    }
  }
  return name;
}

std::pair<std::string, std::string> parse_label(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || !is_label_key(std::string_view(text).substr(0, at))) {
    throw Error(ErrorKind::kUsage, "--label " + text,
                "not KEY=VALUE with a key of letters, digits, \"_\" and \".\"",
                "for example: --label region=eu-west");
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

std::string to_text(const ProfileName& name) {
  std::string labels;
  for (const auto& [key, value] : name.labels) {
    if (value.empty()) continue;
    labels += (labels.empty() ? "" : ",") + key + "=" + replaced(value, is_value_character);
  }
  return replaced(name.service, is_name_character) + "{" + labels + "}";
}

std::string ingest_url(const std::string& base, const ProfileName& name, int64_t taken_at_ns) {
  constexpr const char* kExample = "for example: --to http://pyroscope.example:4040";
  const size_t scheme = base.starts_with("http://")    ? 7
                        : base.starts_with("https://") ? 8
                                                       : std::string::npos;
  if (scheme == std::string::npos || base.size() == scheme) {
    refuse_address("it is no address that begins with http:// or https://", kExample);
  }
  const std::string_view rest = std::string_view(base).substr(scheme);
  if (rest.substr(0, rest.find('/')).find('@') != std::string_view::npos) {
    refuse_address("it has a user or password in it, which every user of this machine can see",
                   "put an Authorization header into a file: --header-file FILE");
  }
  if (rest.find_first_of("?#") != std::string_view::npos ||
      !std::all_of(rest.begin(), rest.end(), [](char c) { return c > ' ' && c < '\x7f'; })) {
    refuse_address("it has a query, a blank or another character that no address of a server has",
                   kExample);
  }
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t taken_at = taken_at_ns / kSecond;
  return fmt::format("{}/ingest?name={}&from={}&until={}&format=pprof&spyName=heapsnap",
                     base.substr(0, base.find_last_not_of('/') + 1), percent_encoded(to_text(name)),
                     taken_at, taken_at + 1);
}

}  // namespace heapsnap
