#include "traces/chakra/chakra_files.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery {
namespace {

class ChakraFiles : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  /// Everything that was read, in order: "0=text 1=text json=text".
  static std::string read(const std::string& path, const std::string& groups = {}) {
    std::string all;
    read_chakra_files(path, groups,
                      {.rank = [&](std::uint32_t rank, const std::string&,
                                   std::string_view bytes) {
                         all += std::to_string(rank) + "=" + std::string(bytes) + " ";
                       },
                       .groups = [&](const std::string&, std::string_view json) {
                         all += "json=" + std::string(json);
                       }});
    return all;
  }
  static std::string refusal(const std::string& path) {
    try {
      return "accepted: " + read(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      return error.what();
    }
  }
  static std::string tar(const std::vector<std::pair<std::string, std::string>>& files) {
    std::string out;
    for (const auto& [name, bytes] : files) {
      std::array<char, 512> header{};
      std::snprintf(header.data(), 100, "%s", name.c_str());
      std::snprintf(header.data() + 124, 12, "%011zo", bytes.size());
      header[156] = '0';
      std::snprintf(header.data() + 257, 6, "ustar");
      out.append(header.data(), header.size());
      out += bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
    }
    return out + std::string(1024, '\0');
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ChakraFiles, RanksComeInOrderThenTheGroupsBesideThem) {
  for (int rank = 11; rank >= 0; --rank) write("w." + std::to_string(rank) + ".et", "x");
  write("w.json", "{}");
  write("other.0.et", "y");
  write("w.00.et", "no rank");
  EXPECT_EQ(read(path("w")),
            "0=x 1=x 2=x 3=x 4=x 5=x 6=x 7=x 8=x 9=x 10=x 11=x json={}");
  write("mine.json", "mine");
  EXPECT_EQ(read(path("other"), path("mine.json")), "0=y json=mine");
}

TEST_F(ChakraFiles, MissingFilesAreNamed) {
  EXPECT_NE(refusal(path("w")).find("w.0.et"), std::string::npos);
  EXPECT_NE(refusal("/nowhere/w").find("/nowhere/w.0.et"), std::string::npos);
  write("w.0.et", "x");
  write("w.2.et", "x");
  EXPECT_NE(refusal(path("w")).find("w.1.et"), std::string::npos);
  write("w.1.et", "x");
  write("w.1.et.gz", "x");
  EXPECT_NE(refusal(path("w")).find("rank 1 has two files"), std::string::npos);
}

TEST_F(ChakraFiles, AnArchiveIsReadAsItStands) {
  write("t.tar", tar({{"d/w.1.et", "b"}, {"d/w.json", "{}"}, {"d/w.0.et", std::string(600, 'a')},
                      {"d/readme", "z"}}));
  EXPECT_EQ(read(path("t.tar")), "1=b 0=" + std::string(600, 'a') + " json={}");
  write("two.tar", tar({{"v.0.et", "b"}, {"w.0.et", "b"}}));
  EXPECT_NE(refusal(path("two.tar")).find("two traces: 'v' and 'w'"), std::string::npos);
  write("gap.tar", tar({{"v.0.et", "b"}, {"v.2.et", "b"}}));
  EXPECT_NE(refusal(path("gap.tar")).find("v.1.et"), std::string::npos);
  write("none.tar", tar({{"readme", "b"}}));
  EXPECT_NE(refusal(path("none.tar")).find("no file of a rank"), std::string::npos);
  write("text", std::string(2000, 'q'));
  EXPECT_NE(refusal(path("text")).find("not a tar archive"), std::string::npos);
  const std::string whole = tar({{"v.0.et", std::string(3000, 'b')}});
  write("cut.tar", whole.substr(0, 1500));
  EXPECT_NE(refusal(path("cut.tar")).find("cut short"), std::string::npos);
}

}  // namespace
}  // namespace orrery
