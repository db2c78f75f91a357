#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include "tools/collect/collect_config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "base/byte_size.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "platform/linux/proc/container_path.h"
#include "store/snapshot_name.h"

namespace heapsnap {

namespace {

using std::chrono::milliseconds;

constexpr const char* kNoTarget = "it names no target";
constexpr const char* kTargetExample =
    "add one: [[target]], and below it name = \"web\" and process = \"nginx\"";

[[noreturn]] void refuse(const std::string& path, const toml::source_region& where,
                         const std::string& why, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, fmt::format("{}:{}", path, where.begin.line), why, remedy);
}

// One table of the file, whose keys are asked for one after the other; finish() refuses the others.
class Keys {
 public:
  Keys(const std::string& path, const toml::table& table, std::string of)
      : path_(path), table_(table), of_(std::move(of)) {}

  std::optional<std::string> text(std::string_view key, const char* example) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    auto value = node->value_exact<std::string>();
    if (!value || value->empty()) wrong(*node, key, "a text", example);
    return value;
  }

  std::optional<std::string> absolute_path(std::string_view key, const char* example) {
    auto path = text(key, example);
    if (path && path->front() != '/') wrong(*find(key), key, "an absolute path", example);
    return path;
  }

  bool truth(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return false;
    const auto value = node->value_exact<bool>();
    if (!value) wrong(*node, key, "true or false", "true");
    return *value;
  }

  std::optional<uint64_t> count(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value_exact<int64_t>();
    if (!value || *value <= 0) wrong(*node, key, "a number above 0", "24");
    return static_cast<uint64_t>(*value);
  }

  std::optional<uint64_t> bytes(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto size = known_size(*node, key);
    if (!size) wrong(*node, key, "a size", "\"500MiB\"");
    return size;
  }

  std::optional<milliseconds> time(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value_exact<std::string>();
    if (!value) wrong(*node, key, "a time", "\"10m\"");
    try {
      return milliseconds(parse_duration_ms(std::string(key), *value));
    } catch (const Error&) {
      wrong(*node, key, "a time", "\"10m\"");
    }
  }

  // Whole seconds, at least one.
  std::optional<int64_t> seconds(std::string_view key) {
    const auto value = time(key);
    if (!value) return std::nullopt;
    return std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(*value).count());
  }

  std::optional<ShareOrBytes> share(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    if (const auto percent = percent_of(*node); percent && *percent > 0) {
      return ShareOrBytes{*percent, 0};
    }
    if (const auto size = known_size(*node, key)) return ShareOrBytes{std::nullopt, *size};
    wrong(*node, key, "a share or a size above 0", "\"10%\"");
  }

  // The same, or "0%" or 0.
  std::optional<ShareOrBytes> share_or_none(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    if (const auto percent = percent_of(*node)) return ShareOrBytes{*percent, 0};
    if (node->value_exact<int64_t>() == 0) return ShareOrBytes{std::nullopt, 0};
    if (const auto size = known_size(*node, key)) return ShareOrBytes{std::nullopt, *size};
    wrong(*node, key, "a share or a size", "\"5%\"");
  }

  std::optional<double> percent(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto percent = percent_of(*node);
    if (!percent || *percent > 100) wrong(*node, key, "a share of 100 at most", "\"20%\"");
    return percent;
  }

  std::optional<Keys> table(std::string_view key, const char* example) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    if (!node->is_table()) wrong(*node, key, "a table", example);
    return Keys(path_, *node->as_table(), fmt::format("{}", key));
  }

  const toml::node* find(std::string_view key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
    return table_.get(key);
  }

  [[noreturn]] void wrong(const toml::node& node, std::string_view key, const char* what,
                          const char* example) const {
    refuse(path_, node.source(), fmt::format("the value of {} is not {}", key, what),
           fmt::format("for example: {} = {}", key, example));
  }

  void finish() const {
    for (const auto& [key, node] : table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
      std::string list;
      for (const std::string& known : known_) list += (list.empty() ? "" : ", ") + known;
      refuse(path_, key.source(), fmt::format("there is no key \"{}\" {}", key.str(), place()),
             "known are: " + list);
    }
  }

 private:
  std::string place() const {
    if (of_.empty()) return "at the top";
    return of_ == "target" ? "in a target" : "in " + of_;
  }

  static std::optional<uint64_t> known_size(const toml::node& node, std::string_view key) {
    const auto number = node.value_exact<int64_t>();
    if (number && *number > 0) return static_cast<uint64_t>(*number);
    try {
      if (const auto text = node.value_exact<std::string>()) {
        return parse_byte_size(std::string(key), *text);
      }
    } catch (const Error&) {
      // Told by the caller, with the line.
    }
    return std::nullopt;
  }

  static std::optional<double> percent_of(const toml::node& node) {
    const auto text = node.value_exact<std::string>();
    if (!text || !text->ends_with('%')) return std::nullopt;
    double number = 0;
    const char* const end = text->data() + text->size() - 1;
    const auto [rest, error] = std::from_chars(text->data(), end, number);
    const bool is_share = error == std::errc() && rest == end && number >= 0 && number <= 1e6;
    return is_share ? std::optional(number) : std::nullopt;
  }

  const std::string& path_;
  const toml::table& table_;
  std::string of_;
  std::vector<std::string> known_;
};

RetentionRules read_keep(Keys& top) {
  RetentionRules keep;
  auto keys = top.table("keep", "{ last = 24, daily = 14 }");
  if (!keys) return keep;
  keep.last = keys->count("last");
  keep.hourly = keys->count("hourly");
  keep.daily = keys->count("daily");
  keep.weekly = keys->count("weekly");
  keep.max_bytes = keys->bytes("max_bytes");
  keep.max_age_s = keys->seconds("max_age");
  keys->finish();
  return keep;
}

SkipRules read_skip(Keys& top) {
  SkipRules skip;
  auto keys = top.table("skip", "{ disk_below = \"1GiB\" }");
  if (!keys) return skip;
  skip.memory_below = keys->share_or_none("memory_below").value_or(skip.memory_below);
  skip.disk_below = keys->share_or_none("disk_below").value_or(skip.disk_below);
  skip.memory_pressure_over =
      keys->percent("memory_pressure_over").value_or(skip.memory_pressure_over);
  skip.io_pressure_over = keys->percent("io_pressure_over").value_or(skip.io_pressure_over);
  skip.cpu_pressure_over = keys->percent("cpu_pressure_over").value_or(skip.cpu_pressure_over);
  keys->finish();
  return skip;
}

DueRules read_when(Keys& target) {
  DueRules when;
  if (auto keys = target.table("when", "{ every = \"10m\" }")) {
    when.rss_over = keys->bytes("rss_over");
    if (const auto growth = keys->share("grown_by")) {
      when.grown_by_percent = growth->percent;
      if (!growth->percent) when.grown_by_bytes = growth->bytes;
    }
    when.every_s = keys->seconds("every");
    keys->finish();
  }
  when.min_interval_s = target.seconds("min_interval").value_or(0);
  return when;
}

CaptureChoice read_references(Keys& target) {
  const auto text = target.text("references", "\"auto\"");
  if (!text) return CaptureChoice::kAuto;
  const auto choice = parse_capture_choice(*text);
  if (!choice) {
    target.wrong(*target.find("references"), "references", "auto, yes or no", "\"auto\"");
  }
  return *choice;
}

TargetRule read_target(const std::string& path, const toml::table& table) {
  Keys keys(path, table, "target");
  TargetRule rule;
  const toml::node* const name = keys.find("name");
  rule.name = keys.text("name", "\"web\"").value_or("");
  if (!is_target_name(rule.name)) {
    refuse(path, name == nullptr ? table.source() : name->source(),
           name == nullptr ? std::string("a target without a name")
                           : fmt::format("\"{}\" cannot be the name of a folder", rule.name),
           "give it one of letters, digits, '.', '_' and '-': name = \"web\"");
  }
  rule.process = keys.text("process", "\"nginx\"").value_or("");
  rule.pid_file = keys.text("pid_file", "\"/run/nginx.pid\"").value_or("");
  rule.unit = keys.text("unit", "\"nginx.service\"").value_or("");
  rule.cgroup = keys.text("cgroup", "\"/system.slice/nginx.service\"").value_or("");
  rule.container = keys.text("container", "\"3f2a8c91d0b4\"").value_or("");
  rule.pod = keys.text("pod", "\"8d2f6a1e-4b7c-4f0a-9c3d-5e6f708192a3\"").value_or("");
  rule.all = keys.truth("all");
  rule.optional = keys.truth("optional");
  rule.when = read_when(keys);
  rule.references = read_references(keys);
  rule.timeout = keys.time("timeout").value_or(rule.timeout);
  rule.cpu = keys.time("cpu").value_or(rule.cpu);
  keys.finish();
  if (rule.process.empty() && rule.pid_file.empty() && rule.unit.empty() && rule.cgroup.empty() &&
      rule.container.empty() && rule.pod.empty()) {
    refuse(path, table.source(), fmt::format("target {} names no process", rule.name),
           "give it one of process, pid_file, unit, cgroup, container, pod");
  }
  if (!rule.container.empty() && (!is_hex(rule.container) || rule.container.size() < 4)) {
    refuse(path, table.get("container")->source(),
           "a container goes by the first digits of its id, four at least",
           "docker ps and crictl ps show it: container = \"3f2a8c91d0b4\"");
  }
  std::erase_if(rule.pod, [](char c) { return c == '-' || c == '_'; });
  if (!rule.pod.empty() && (!is_hex(rule.pod) || rule.pod.size() < kLeastIdDigits)) {
    refuse(path, table.get("pod")->source(),
           fmt::format("a pod goes by the first {} digits of its UID or more", kLeastIdDigits),
           "kubectl get pod NAME -o jsonpath='{.metadata.uid}' prints it");
  }
  // systemctl takes a name without a suffix for that of a service.
  if (!rule.unit.empty() && rule.unit.find('.') == std::string::npos) rule.unit += ".service";
  if (!rule.cgroup.empty() && rule.cgroup.front() != '/') rule.cgroup.insert(0, "/");
  while (rule.cgroup.size() > 1 && rule.cgroup.ends_with('/')) rule.cgroup.pop_back();
  return rule;
}

std::vector<TargetRule> read_targets(Keys& top, const std::string& path) {
  const toml::node* const node = top.find("target");
  if (node == nullptr) return {};
  const toml::array* const array = node->as_array();
  if (array == nullptr || array->empty() || !array->is_array_of_tables()) {
    refuse(path, node->source(), kNoTarget, kTargetExample);
  }
  std::vector<TargetRule> targets;
  std::set<std::string> names;
  for (const toml::node& each : *array) {
    targets.push_back(read_target(path, *each.as_table()));
    if (!names.insert(targets.back().name).second) {
      refuse(path, each.source(),
             fmt::format("a second target with the name {}", targets.back().name),
             "names are folders of the store: give each target its own");
    }
  }
  return targets;
}

}  // namespace

CollectConfig parse_collect_config(const std::string& text, const std::string& path) {
  CollectConfig config;
  config.path = path;
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    refuse(path, error.source(), std::string(error.description()),
           "docs/collecting.md has an example of a configuration");
  }
  Keys keys(path, table, "");
  config.store = keys.absolute_path("store", "\"/var/lib/heapsnap\"").value_or(config.store);
  config.lock = keys.absolute_path("lock", "\"/run/heapsnap/collect.lock\"").value_or("");
  config.jitter = keys.time("jitter").value_or(milliseconds(0));
  config.keep = read_keep(keys);
  config.skip = read_skip(keys);
  config.targets = read_targets(keys, path);
  keys.finish();
  return config;
}

CollectConfig read_collect_config(const std::string& path) {
  try {
    const MappedFile file = MappedFile::open(path);
    const std::string text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    file.check_whole(path);
    return parse_collect_config(text, path);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    throw Error(ErrorKind::kBadInput, "cannot read the configuration " + path, error.why(),
                "name another one with --config; heapsnap collect --help has an example");
  }
}

void require_targets(const CollectConfig& config) {
  if (!config.targets.empty()) return;
  throw Error(ErrorKind::kUsage, config.path, kNoTarget, kTargetExample);
}

}  // namespace heapsnap
