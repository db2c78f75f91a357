// Where a profile goes: the address of Pyroscope's ingestion, with the name and the labels of the
// profile and the time that it is of.
//
//   http://pyroscope:4040/ingest?name=nginx%7Bhost%3Dweb1%2Cpid%3D42%7D&from=1769903999
//                               &until=1769904000&format=pprof&spyName=heapsnap
//
// By "Pyroscope server HTTP API", section Ingestion (grafana.com/docs/pyroscope/latest/
// reference-server-api, "The pprof format"): the body is the profile itself, and the types
// inuse_objects and inuse_space are known without a configuration (pkg/ingester/pyroscope/
// ingest_handler.go of github.com/grafana/pyroscope: with format=pprof the raw body is the
// profile). Grafana Alloy's pyroscope.receive_http takes the same requests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "snapshot/metadata.h"

namespace heapsnap {

using ProfileLabels = std::vector<std::pair<std::string, std::string>>;

// What a profile is called: its service, and labels for the rest.
struct ProfileName {
  std::string service;
  ProfileLabels labels;
};

// The target's name in the store, else the process's; host, pid, and build_id where it is known.
// `service`: if not empty, instead; `more`: labels that are added, or replace these.
ProfileName profile_name(const SnapshotMetadata& metadata, const std::string& service,
                         const ProfileLabels& more);
// "KEY=VALUE". Throws Error{kUsage}.
std::pair<std::string, std::string> parse_label(const std::string& text);

// "nginx{host=web1,pid=42}". Characters that would end a label or its value become "_".
std::string to_text(const ProfileName& name);

// `base` is the address of the server, for example "http://pyroscope:4040", with or without a path.
// Throws Error{kUsage} for one that is no address or has a password in it.
std::string ingest_url(const std::string& base, const ProfileName& name, int64_t taken_at_ns);

}  // namespace heapsnap
