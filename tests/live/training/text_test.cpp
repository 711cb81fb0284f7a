#include "live/training/text.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

class TextFolder : public ::testing::Test {
 protected:
  TextFolder() : folder_(::testing::TempDir() + "orrery-text." + std::to_string(getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TextFolder() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  fs::path folder_;
};

ErrorKind kind_of_load(const std::string& path) {
  try {
    Text::load(path);
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("live.text"), std::string::npos);
    return error.kind();
  }
  return ErrorKind::internal;
}

TEST_F(TextFolder, JoinsItsFilesByNameAndSkipsLinks) {
  write("b", std::string(700, 'b'));
  write("a", std::string(600, 'a'));
  fs::create_symlink("a", folder_ / "c");
  const Text text = Text::load(folder_.string());
  ASSERT_EQ(text.bytes().size(), 1300u);
  EXPECT_EQ(text.bytes()[599], 'a');
  EXPECT_EQ(text.bytes()[600], 'b');
}

TEST_F(TextFolder, IsCutAtFourMebibytes) {
  write("large", std::string((4u << 20) + 5, 'x'));
  write("more", "y");
  const Text text = Text::load(folder_.string());
  EXPECT_EQ(text.bytes().size(), 4u << 20);
  EXPECT_EQ(text.bytes().back(), 'x');
}

TEST_F(TextFolder, TooLittleOrNothingIsBadInput) {
  EXPECT_EQ(kind_of_load(folder_.string()), ErrorKind::bad_input);
  write("short", std::string(1023, 'x'));
  EXPECT_EQ(kind_of_load((folder_ / "short").string()), ErrorKind::bad_input);
  EXPECT_EQ(kind_of_load((folder_ / "missing").string()), ErrorKind::bad_input);
}

TEST_F(TextFolder, WhatRanksCannotReadAlikeIsBadInput) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  // refused without waiting
  EXPECT_EQ(kind_of_load((folder_ / "pipe").string()), ErrorKind::bad_input);
  EXPECT_EQ(kind_of_load("/dev/urandom"), ErrorKind::bad_input);
}

TEST(Text, EntropyOfEvenlyUsedLettersIsTheLogOfTheirNumber) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 4000; ++i) bytes.push_back("acgt"[i % 4]);
  EXPECT_NEAR(Text(bytes).unigram_entropy(), std::log(4.0), 1e-12);
  EXPECT_EQ(Text(std::vector<std::uint8_t>(2000, 'x')).unigram_entropy(), 0);
}

TEST(Text, MicroBatchDependsOnSeedStepAndIdAlone) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 5000; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 7 + i / 13));
  const Text text(bytes);
  const auto batch = text.sample(1, 5, 2, 3, 48);
  EXPECT_EQ(batch.size(), 3u * 48);
  EXPECT_EQ(batch, text.sample(1, 5, 2, 3, 48));
  EXPECT_NE(batch, text.sample(2, 5, 2, 3, 48));
  EXPECT_NE(batch, text.sample(1, 6, 2, 3, 48));
  EXPECT_NE(batch, text.sample(1, 5, 3, 3, 48));
}

TEST(Text, ASequenceMayBeTheWholeTextButNotLonger) {
  const Text text(std::vector<std::uint8_t>(1024, 'x'));
  EXPECT_EQ(text.sample(1, 0, 0, 1, 1024), text.bytes());
  EXPECT_THROW(text.sample(1, 0, 0, 1, 1025), Error);
}

}  // namespace
}  // namespace orrery::live
