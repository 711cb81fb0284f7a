#include "live/checkpoint/store.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "core/error.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;

class FolderStoreTest : public testing::Test {
 protected:
  FolderStoreTest() { fs::remove_all(folder_); }
  ~FolderStoreTest() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  const std::string folder_ = testing::TempDir() + "orrery_store." + std::to_string(getpid());
};

void expect_refused(ErrorKind kind, const std::string& name, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.message();
    EXPECT_NE(error.message().find(name), std::string::npos) << error.message();
  }
}

void write(Store& store, const std::string& name, const std::string& content) {
  const auto file = store.create_file(name);
  file->write(content);
  file->sync();
}

TEST_F(FolderStoreTest, MakesItsFolderForItsUserAlone) {
  const auto store = FolderStore::make_folder(folder_ + "/a/b");
  write(*store, "file", "content");
  for (const char* name : {"", "/a", "/a/b"}) {
    struct stat status {};
    ASSERT_EQ(stat((folder_ + name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u) << name;
  }
  struct stat status {};
  ASSERT_EQ(stat(path("a/b/file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(FolderStoreTest, WritesRenamesListsReadsAndRemoves) {
  const auto store = FolderStore::make_folder(folder_);
  write(*store, "b", "one");
  write(*store, "a", "two");
  store->rename("b", "c");
  store->sync_names();
  EXPECT_EQ(store->list(), (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(store->read("c", 3), "one");
  store->rename("c", "a");
  EXPECT_EQ(store->read("a", 100), "one");
  store->remove_file("a");
  EXPECT_TRUE(store->list().empty());
}

TEST_F(FolderStoreTest, FollowsItsFolderWhenThatIsRenamed) {
  const auto store = FolderStore::make_folder(folder_ + "/before");
  fs::rename(folder_ + "/before", folder_ + "/after");
  write(*store, "file", "content");
  EXPECT_TRUE(fs::exists(folder_ + "/after/file"));
}

TEST_F(FolderStoreTest, WhatFailsNamesTheFileAndTheCause) {
  const auto store = FolderStore::make_folder(folder_);
  write(*store, "there", "content");
  const auto environment = ErrorKind::environment;
  expect_refused(environment, "there': File exists", [&] { store->create_file("there"); });
  expect_refused(environment, "gone': No such file", [&] { store->read("gone", 9); });
  expect_refused(environment, "gone': No such file", [&] { store->remove_file("gone"); });
  expect_refused(environment, "gone': No such file", [&] { store->rename("gone", "a"); });
  expect_refused(environment, "there", [&] { FolderStore::make_folder(path("there/below")); });
}

TEST_F(FolderStoreTest, ReadsRegularFilesOfTheExpectedSizeOnly) {
  const auto store = FolderStore::make_folder(folder_);
  write(*store, "file", "content");
  fs::create_symlink(path("file"), path("link"));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_directory(path("folder"));
  expect_refused(ErrorKind::bad_input, "at most 6", [&] { store->read("file", 6); });
  expect_refused(ErrorKind::environment, "link", [&] { store->read("link", 100); });
  expect_refused(ErrorKind::bad_input, "not a regular file", [&] { store->read("pipe", 100); });
  expect_refused(ErrorKind::bad_input, "not a regular file", [&] { store->read("folder", 100); });
}

TEST_F(FolderStoreTest, OpensOnlyWhatIsThere) {
  expect_refused(ErrorKind::bad_input, folder_, [&] { FolderStore::open(folder_); });
  EXPECT_FALSE(fs::exists(folder_));
  FolderStore::make_folder(folder_);
  EXPECT_TRUE(FolderStore::open(folder_)->list().empty());
}

}  // namespace
}  // namespace orrery::live
