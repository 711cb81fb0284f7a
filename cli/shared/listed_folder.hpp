// Folder of a run that `orrery runs` lists (live/run/files/run_files.hpp), for runs whose command
// line is their only process of Orrery. One thread.
#pragma once

#include <fstream>
#include <string>

#include "core/files/temporary_folder.hpp"
#include "live/run/files/run_files.hpp"

namespace orrery::cli {

/// Folder of one run with the marker of a run; the destructor removes the folder.
class ListedFolder {
 public:
  /// Creates the folder. Throws an environment Error if the folder cannot be created, and as
  /// live::run_parent().
  ListedFolder() : folder_(name(), live::run_parent()) {
    std::ofstream(folder_.path_of(live::kRunMarker)) << live::kRunMarked;
  }

  /// Continues the folder `path` of a killed run. Throws an environment Error if it is gone.
  explicit ListedFolder(const std::string& path) : folder_(path, TemporaryFolder::Taken()) {}

  /// Lets processes that are started from now on keep the run listed, if this one is killed.
  void share_lock() { folder_.share_lock(); }
  /// Locks the folder of a killed run once its ranks have ended (TemporaryFolder::claim_lock()).
  void claim_lock() { folder_.claim_lock(); }

  /// Returns the path of the folder.
  std::string path() const { return folder_.path_of(""); }

 private:
  /// Returns the prefix of the folder without the last character, which TemporaryFolder adds.
  static std::string name() {
    std::string name = live::kRunPrefix;
    name.pop_back();
    return name;
  }

  TemporaryFolder folder_;
};

}  // namespace orrery::cli
