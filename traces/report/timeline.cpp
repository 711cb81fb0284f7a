#include "traces/report/timeline.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/error.hpp"
#include "traces/perfetto.pb.h"

namespace orrery {
namespace {

using perfetto::TrackEvent;

void write(std::ofstream& file, const perfetto::TracePacket& packet) {
  perfetto::Trace trace;
  *trace.add_packet() = packet;
  trace.SerializeToOstream(&file);  // concatenated traces are one trace
}

/// The name, unless readers would take the file for something else by it.
const std::string& path_of(const std::string& path) {
  for (const std::string_view ending : {".json", ".json.gz", ".txt", ".csv", ".html", ".gz"}) {
    if (!path.ends_with(ending)) continue;
    throw Error(ErrorKind::usage,
                fmt::format("the timeline is a Perfetto trace (protobuf), not '{}': name it "
                            "OUT.pftrace, and open it in https://ui.perfetto.dev",
                            ending));
  }
  return path;
}

}  // namespace

Timeline::Timeline(const std::string& path)
    : path_(path), file_(path_of(path), std::ios::binary | std::ios::trunc) {
  if (!file_) {
    throw Error(ErrorKind::environment,
                fmt::format("cannot write the timeline {}: {}", path_, std::strerror(errno)));
  }
}

void Timeline::close() {
  if (!file_.is_open()) return;
  file_.close();
  if (!file_) throw Error(ErrorKind::environment, "cannot write all of the timeline " + path_);
}

Timeline::Track Timeline::track_named(const std::string& process, const std::string& name) {
  auto [entry, fresh] = processes_.emplace(process, 0);
  if (fresh) {
    entry->second = next_++;
    perfetto::TracePacket packet;
    auto& descriptor = *packet.mutable_track_descriptor();
    descriptor.set_uuid(entry->second);
    descriptor.mutable_process()->set_pid(static_cast<std::int32_t>(entry->second));
    descriptor.mutable_process()->set_process_name(process);
    write(file_, packet);
  }
  const Track parent = entry->second;
  const auto known = tracks_.find({parent, name});
  if (known != tracks_.end()) return known->second;
  const Track made = declare_track(parent, name);
  tracks_[{parent, name}] = made;
  described_[made] = {parent, name};
  lanes_[made][made] = 0;
  return made;
}

Timeline::Track Timeline::declare_track(Track process, const std::string& name) {
  perfetto::TracePacket packet;
  auto& descriptor = *packet.mutable_track_descriptor();
  descriptor.set_uuid(next_);
  descriptor.set_parent_uuid(process);
  descriptor.set_name(name);
  write(file_, packet);
  return next_++;
}

Timeline::Track Timeline::lane(Track track, Nanos begin, Nanos end) {
  std::map<Track, Nanos>& lanes = lanes_.at(track);
  for (auto& [lane, busy_until] : lanes) {
    if (busy_until > begin) continue;
    busy_until = end;
    return lane;
  }
  const auto& [process, name] = described_.at(track);
  const Track made = declare_track(process, name);
  lanes[made] = end;
  return made;
}

void Timeline::event(int type, Track track, const std::string& name, Nanos at) {
  perfetto::TracePacket packet;
  packet.set_timestamp(static_cast<std::uint64_t>(at));
  packet.set_trusted_packet_sequence_id(1);
  auto& event = *packet.mutable_track_event();
  event.set_type(static_cast<TrackEvent::Type>(type));
  event.set_track_uuid(track);
  if (!name.empty()) event.set_name(name);
  write(file_, packet);
}

void Timeline::slice(Track track, const std::string& name, Nanos begin, Nanos end) {
  const Track on = lane(track, begin, end);
  event(TrackEvent::SLICE_BEGIN, on, name, begin);
  event(TrackEvent::SLICE_END, on, "", end);
}

void Timeline::instant(Track track, const std::string& name, Nanos at) {
  event(TrackEvent::INSTANT, track, name, at);
}

}  // namespace orrery
