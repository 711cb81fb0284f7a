// Perfetto trace file, written during the run: processes with named tracks, slices and instants.
// Used by both worlds. Times are nanoseconds of the policy clock. One thread.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "core/ids.hpp"

namespace orrery {

/// Writer of one trace file.
class Timeline {
 public:
  using Track = std::uint64_t;

  /// Creates the file. Throws an environment Error if it cannot be written, a usage Error if its
  /// name has the extension of another format: the format is Perfetto's protobuf.
  explicit Timeline(const std::string& path);

  /// Writes the remaining data and closes the file. Throws an environment Error if any data could
  /// not be written. Call last; a second call has no effect. Without a call, the destructor closes
  /// the file, and lost data are not reported.
  void close();

  /// Returns the track `name` of `process`, created at the first use.
  Track track_named(const std::string& process, const std::string& name);
  /// Adds a slice to a track of track_named(); throws std::out_of_range for another one. Slices of
  /// one track may overlap: a slice goes to the first lane of the track, the track itself or a
  /// further one of the same name, whose slices have ended by `begin`; a new lane if none has. Add
  /// the slices of a track by ascending begin.
  void slice(Track track, const std::string& name, Nanos begin, Nanos end);
  /// Adds an instant to a track of track_named().
  void instant(Track track, const std::string& name, Nanos at);

 private:
  Track lane(Track track, Nanos begin, Nanos end);
  Track declare_track(Track process, const std::string& name);
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
