// Every process of a test has a folder of its own as testing::TempDir(), because tests run side by
// side and name their files freely.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace orrery {
namespace {

class OwnTempDir {
 public:
  OwnTempDir() {
    // A process that a test has started shares its folder.
    if (std::getenv("TEST_TMPDIR") != nullptr) return;
    std::string name = (std::filesystem::temp_directory_path() / "orrery-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    setenv("TEST_TMPDIR", name.c_str(), 1);  // GoogleTest looks there first
  }

  OwnTempDir(const OwnTempDir&) = delete;
  OwnTempDir& operator=(const OwnTempDir&) = delete;

  ~OwnTempDir() {
    std::error_code ignored;
    if (getpid() == owner_ && !path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  const pid_t owner_ = getpid();  // a forked child that exits leaves the folder alone
  std::filesystem::path path_;
};

const OwnTempDir own_temp_dir;

}  // namespace
}  // namespace orrery
