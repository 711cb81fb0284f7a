// The folder of one run's sockets: only its owner may enter, and it goes away with this object.
#pragma once

#include <string>

namespace orrery::live {

class RunFolder {
 public:
  RunFolder();  ///< throws an environment Error if the folder of temporary files is not writable
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Sockets that are connected need their names no longer: removing them early leaves nothing
  /// behind even after kill -9. Harmless twice.
  void remove() noexcept;

 private:
  std::string path_;
};

}  // namespace orrery::live
