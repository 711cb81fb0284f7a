// A tree like the kernel's /sys, for a machine that the test makes up.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace orrery::live {

/// Folder like /sys for tests.
class FakeSys {
 public:
  FakeSys() : root_(testing::TempDir() + "orrery_sys." + std::to_string(getpid())) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FakeSys() { std::filesystem::remove_all(root_); }
  std::string path() const { return root_.string(); }

  void file(const std::string& name, const std::string& line) {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << line << "\n";
  }
  void pci(const std::string& address, const std::string& kind, const std::string& vendor) {
    const std::string folder = "bus/pci/devices/" + address + "/";
    file(folder + "class", kind);
    file(folder + "vendor", vendor);
    file(folder + "current_link_speed", "32.0 GT/s PCIe");
    file(folder + "current_link_width", "16");
    file(folder + "numa_node", "1");
  }

 private:
  std::filesystem::path root_;
};

}  // namespace orrery::live
