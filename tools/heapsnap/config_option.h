// The configuration that collect, prune and history read.
#pragma once

#include <string>

#include "tools/heapsnap/option_parser.h"

namespace heapsnap {

// Adds --config; `path` holds kDefaultConfigPath (tools/collect/collect_config.h) at first.
inline void add_config_option(OptionParser& parser, std::string& path) {
  parser.text("config", path, "FILE", "the configuration (default: /etc/heapsnap/collect.toml)");
}

}  // namespace heapsnap
