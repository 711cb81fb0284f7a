#include "live/rendezvous.hpp"

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "live/control/control_server.hpp"
#include "live/run/files/run_folder.hpp"

namespace orrery::live {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

Rendezvous place(const std::string& folder, std::uint32_t rank) {
  Rendezvous out;
  out.set_rank(rank);
  out.set_ranks(2);
  out.set_secrets(folder);
  if (rank == 0) out.set_listen("127.0.0.1");
  return out;
}

std::unique_ptr<ControlServer> listen_at(MeetingPoint& point) {
  auto server = std::make_unique<ControlServer>(point.controller_address(), point.secrets(), 2,
                                                [](std::uint32_t, const AgentMessage*) {});
  point.announce_address(server->address());
  return server;
}

TEST(Rendezvous, TheOthersFindTheControllerThroughTheFolderAndNothingIsLeft) {
  const RunFolder parent;
  const std::string folder = parent.path() + "/meet";
  AgentStart start;
  std::jthread other(
      [&] { start = await_controller(place(folder, 1), true, milliseconds(20'000)); });
  {
    MeetingPoint point(place(folder, 0), true);
    EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
    const auto server = listen_at(point);
    other.join();
    EXPECT_EQ(start.controller_address(), server->address());
  }
  EXPECT_EQ(start.data_address(), "127.0.0.1:0");
  EXPECT_EQ(start.ranks(), 2u);
  EXPECT_TRUE(start.tls());
  EXPECT_FALSE(fs::exists(folder));
}

TEST(Rendezvous, SecretsOfTheUserAreUsedAndLeftAlone) {
  const RunFolder folder;
  const Secrets own = make_secrets(true);
  write_secrets(own, folder.path());
  {
    const MeetingPoint point(place(folder.path(), 0), true);
    EXPECT_EQ(point.secrets().token, own.token);
  }
  EXPECT_EQ(read_secrets(folder.path(), true).key, own.key);
}

TEST(Rendezvous, WhatAKilledRunLeftIsNotTakenForTheRun) {
  const RunFolder folder;
  write_secrets(make_secrets(true), folder.path());
  std::ofstream(folder.path() + "/made-by-the-run") << "\n";
  std::ofstream(folder.path() + "/controller") << "127.0.0.1:1\n";
  const std::string stale = read_secrets(folder.path(), true).token;
  AgentStart start;
  std::jthread other(
      [&] { start = await_controller(place(folder.path(), 1), true, milliseconds(20'000)); });
  std::this_thread::sleep_for(milliseconds(200));  // time to read the outdated address first
  MeetingPoint point(place(folder.path(), 0), true);
  EXPECT_NE(point.secrets().token, stale);
  const auto server = listen_at(point);
  other.join();
  EXPECT_EQ(start.controller_address(), server->address());
}

TEST(Rendezvous, PatienceEndsWithAReason) {
  const RunFolder folder;
  try {
    await_controller(place(folder.path(), 1), true, milliseconds(100));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_NE(error.message().find("address"), std::string::npos) << error.message();
  }
}

TEST(Rendezvous, AnAddressOfThisMachineLeadsToItself) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(host_of("10.0.0.7:41"), "10.0.0.7");
  EXPECT_EQ(host_of("[::1]:41"), "[::1]");
  EXPECT_THROW(address_towards("no such host"), Error);
}

}  // namespace
}  // namespace orrery::live
