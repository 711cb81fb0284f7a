#include "traces/files/unpack.hpp"

#include <lzma.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

class Unpack : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  std::string gzip(const std::string& name) const {
    const std::string path = (folder_ / name).string();
    const gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text_.data(), static_cast<unsigned>(text_.size()));
    gzclose(file);
    return path;
  }
  std::string xz() const {
    std::string packed(text_.size() + 1024, '\0');
    std::size_t size = 0;
    lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, nullptr,
                            reinterpret_cast<const std::uint8_t*>(text_.data()), text_.size(),
                            reinterpret_cast<std::uint8_t*>(packed.data()), &size, packed.size());
    packed.resize(size);
    return packed;
  }
  static std::string rest(const std::string& path, std::size_t most = 1 << 24) {
    std::string bytes;
    UnpackedFile(path).read_rest(bytes, most);
    return bytes;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::string text_ = std::string(300'000, 'a') + "end";
};

TEST_F(Unpack, PlainGzipAndXzGiveTheSameBytes) {
  EXPECT_EQ(rest(write("plain", text_)), text_);
  EXPECT_EQ(rest(gzip("packed.gz")), text_);
  EXPECT_EQ(rest(write("packed.xz", xz())), text_);
  EXPECT_EQ(rest(write("empty", "")), "");
}

TEST_F(Unpack, DamagedTooLargeAndMissingFilesAreRefused) {
  EXPECT_THROW(rest(write("cut.xz", xz().substr(0, 60))), Error);
  std::string damaged = xz();
  damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
  EXPECT_THROW(rest(write("damaged.xz", damaged)), Error);
  EXPECT_THROW(rest(write("plain", text_), 1000), Error);
  EXPECT_THROW(rest((folder_ / "nowhere").string()), Error);
  EXPECT_THROW(rest(folder_.string()), Error);
}

}  // namespace
}  // namespace orrery
