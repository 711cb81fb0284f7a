// A Perfetto trace file, written as it goes: processes with named tracks, slices and instants on
// them. Both worlds write theirs with it. Times are nanoseconds of the policy clock. One thread.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "core/ids.hpp"

namespace orrery {

class Timeline {
 public:
  using Track = std::uint64_t;

  /// Throws an environment Error if the file cannot be written, a usage Error if its name says
  /// that it is something else: the format is Perfetto's protobuf.
  explicit Timeline(const std::string& path);

  /// Writes what is left. Throws an environment Error if anything could not be written.
  void close();

  /// The track `name` of `process`, made on first use.
  Track track(const std::string& process, const std::string& name);
  /// Slices of one track may overlap: each then gets a lane of its own below it.
  void slice(Track track, const std::string& name, Nanos begin, Nanos end);
  void instant(Track track, const std::string& name, Nanos at);

 private:
  Track lane(Track track, Nanos begin, Nanos end);
  Track declare(Track process, const std::string& name);
  void event(int type, Track track, const std::string& name, Nanos at);

  std::string path_;
  std::ofstream file_;
  std::map<std::string, Track> processes_;
  std::map<std::pair<Track, std::string>, Track> tracks_;
  std::map<Track, std::pair<Track, std::string>> described_;  ///< track -> process, name
  std::map<Track, std::map<Track, Nanos>> lanes_;             ///< track -> lane -> busy until
  std::uint64_t next_ = 1;
};

}  // namespace orrery
