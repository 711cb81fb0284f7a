// NcclComm and NcclFabric over fakes of CUDA and NCCL: ranks are threads. tests/live/gpu.sh tests
// NCCL itself on a GPU.
#include "live/cuda/nccl_comm.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "live/cuda/nccl.hpp"
#include "live/cuda/rounds.hpp"
#include "live/cuda/why.hpp"
#include "live/fabric/nccl_fabric.hpp"

namespace orrery::live {
namespace {

const OrreryCudaTable& table() {
  static const OrreryCudaTable made = [] {
    OrreryCudaTable out{};
    out.why = [] { return gpu::why().c_str(); };
    orrery_add_nccl(out);
    int version = 0;
    if (out.nccl_load(ORRERY_FAKE_NCCL, &version) != 0) throw std::runtime_error(out.why());
    return out;
  }();
  return made;
}

std::atomic<int>& of_fake(const char* name) {
  static void* const library = dlopen(ORRERY_FAKE_NCCL, RTLD_NOW);
  return *static_cast<std::atomic<int>*>(dlsym(library, name));
}

/// Ranks as threads, each with its fabric, not linked yet.
class NcclFabricTest : public testing::Test {
 protected:
  using Action = std::function<void(NcclFabric&)>;
  void SetUp() override { of_fake("fake_nccl_notices") = 1; }
  void TearDown() override { EXPECT_EQ(of_fake("fake_nccl_overlaps"), 0); }

  void make(std::uint32_t ranks) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      fabrics.push_back(std::make_unique<NcclFabric>(table(), NcclOptions{}));
      addresses.push_back(fabrics.back()->address());
    }
  }
  void on_all(const Action& action) {
    std::vector<std::jthread> threads;
    for (auto& fabric : fabrics) {
      threads.emplace_back([&fabric, &action] { action(*fabric); });
    }
  }
  void connect(std::uint32_t ranks) {
    make(ranks);
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([this, rank] { fabrics[rank]->connect_ranks(rank, addresses); });
    }
  }
  /// Opens the links between all pairs.
  void open_links() {
    on_all([](NcclFabric& fabric) { fabric.send_to((fabric.rank() + 1) % fabric.ranks(), {}); });
  }
  std::vector<std::unique_ptr<NcclFabric>> fabrics;
  std::vector<std::string> addresses;
};

TEST(NcclRounds, EveryPairMeetsOnceAndNobodyTwiceARound) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    std::vector<int> met(static_cast<std::size_t>(ranks * ranks), 0);
    for (int round = 0; round < gpu::pairing_rounds(ranks); ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const int partner = gpu::partner_of(rank, ranks, round);
        if (partner < 0) continue;
        EXPECT_EQ(gpu::partner_of(partner, ranks, round), rank);
        ++met[static_cast<std::size_t>(rank * ranks + partner)];
      }
    }
    for (int a = 0; a < ranks; ++a) {
      for (int b = 0; b < ranks; ++b) {
        EXPECT_EQ(met[static_cast<std::size_t>(a * ranks + b)], a == b ? 0 : 1);
      }
    }
  }
}

TEST_F(NcclFabricTest, SumsFloatsAndWholeNumbersOnAllRanks) {
  connect(3);
  on_all([](NcclFabric& fabric) {
    for (int call = 0; call < 3; ++call) {
      std::vector<float> values(1000, static_cast<float>(fabric.rank() + 1));
      fabric.all_reduce(values);
      EXPECT_EQ(values, std::vector<float>(1000, 6));
      std::vector<std::int64_t> units(10, (std::int64_t{1} << 40) + fabric.rank());
      fabric.all_reduce_integers(units);
      EXPECT_EQ(units, std::vector<std::int64_t>(10, 3 * (std::int64_t{1} << 40) + 3));
    }
    EXPECT_EQ(fabric.bytes_sent(), 3u * (2 * 4000 * 2 / 3 + 2 * 80 * 2 / 3));
  });
}

TEST_F(NcclFabricTest, MessagesOfAPairKeepTheirOrderAndSendersDoNotWait) {
  connect(4);
  on_all([](NcclFabric& fabric) {
    // All send everything to all before anybody takes anything, largest rank first.
    for (std::uint32_t to = 4; to-- > 0;) {
      if (to == fabric.rank()) continue;
      for (int number = 0; number < 3; ++number) {
        const std::vector<std::byte> bytes(50, std::byte(10 * fabric.rank() + number));
        fabric.send_to(to, bytes);
      }
    }
    for (std::uint32_t from = 0; from < 4; ++from) {
      if (from == fabric.rank()) continue;
      for (int number = 0; number < 3; ++number) {
        std::vector<std::byte> bytes(50);
        fabric.receive_from(from, bytes);
        EXPECT_EQ(bytes, std::vector<std::byte>(50, std::byte(10 * from + number)));
      }
    }
  });
}

TEST_F(NcclFabricTest, ARankThatIsGoneBreaksTheOthersOperations) {
  connect(3);
  std::jthread killer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fabrics[2].reset();
  });
  std::jthread one([this] {
    std::vector<float> values(10, 1);
    EXPECT_THROW(fabrics[0]->all_reduce(values), FabricBroken);
    EXPECT_THROW(fabrics[0]->all_reduce(values), FabricBroken);
  });
  std::vector<float> values(10, 1);
  try {
    fabrics[1]->all_reduce(values);
    ADD_FAILURE();
  } catch (const FabricBroken& broken) {
    EXPECT_NE(std::string(broken.what()).find("remote process exited"), std::string::npos);
  }
}

TEST_F(NcclFabricTest, AbortWakesAnOperationThatWouldNeverEnd) {
  of_fake("fake_nccl_notices") = 0;
  connect(2);
  std::jthread waiting([this] {
    std::vector<float> values(10, 1);
    try {
      fabrics[0]->all_reduce(values);
      ADD_FAILURE();
    } catch (const FabricBroken& broken) {
      EXPECT_STREQ(broken.what(), "its epoch is over");
    }
    EXPECT_THROW(fabrics[0]->send_to(1, {}), FabricBroken);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fabrics[0]->abort("its epoch is over");
  fabrics[0]->abort("again");  // changes nothing
}

TEST_F(NcclFabricTest, ARankEndsThoughAMessageAndASumNeverWill) {
  of_fake("fake_nccl_notices") = 0;
  connect(2);
  open_links();
  std::vector<std::byte> bytes(50);
  fabrics[0]->send_to(1, bytes);  // nobody receives it: its operation stays on the GPU
  std::jthread detector([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fabrics[0]->abort("rank 1 is gone");
  });
  std::vector<float> values(10, 1);
  EXPECT_THROW(fabrics[0]->all_reduce(values), FabricBroken);
  detector.join();
  fabrics[0].reset();
}

TEST_F(NcclFabricTest, AbortWakesARankThatWaitsForTheOthersToJoin) {
  make(2);
  std::jthread waiting([this] {
    EXPECT_THROW(fabrics[0]->connect_ranks(0, addresses), FabricBroken);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  fabrics[0]->abort("nobody comes");
}

TEST_F(NcclFabricTest, TheRanksThatAreLeftJoinAnewAndGoOn) {
  connect(4);
  open_links();
  of_fake("fake_nccl_notices") = 0;  // a hang: somebody else has to notice
  fabrics.erase(fabrics.begin() + 1);
  on_all([](NcclFabric& fabric) {
    std::jthread detector([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      fabric.abort("rank 1 is gone");
    });
    std::vector<float> values(10, 1);
    EXPECT_THROW(fabric.all_reduce(values), FabricBroken);
  });
  fabrics.clear();
  addresses.clear();
  of_fake("fake_nccl_notices") = 1;
  connect(3);
  on_all([](NcclFabric& fabric) {
    std::vector<float> values(10, 1);
    fabric.all_reduce(values);
    EXPECT_EQ(values, std::vector<float>(10, 3));
  });
}

TEST_F(NcclFabricTest, OneRankAloneIsAFabricToo) {
  connect(1);
  std::vector<float> values(10, 2);
  fabrics[0]->all_reduce(values);
  EXPECT_EQ(values, std::vector<float>(10, 2));
  EXPECT_EQ(fabrics[0]->bytes_sent(), 0u);
}

TEST_F(NcclFabricTest, AnIdThatWasPublishedInVainIsPublishedAgain) {
  connect(2);
  const NcclFabric next(table(), NcclOptions{});
  EXPECT_EQ(next.address(), addresses[1]);  // rank 0's was used up
  const NcclFabric after(table(), NcclOptions{});
  EXPECT_NE(after.address(), addresses[0]);
  EXPECT_NE(after.address(), addresses[1]);
}

TEST_F(NcclFabricTest, ATableReachesTheTunersFileAndANewEpochBeginsWithNone) {
  const std::string path = testing::TempDir() + "orrery_nccl." + std::to_string(getpid());
  const auto content = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  for (int epoch = 0; epoch < 2; ++epoch) {
    NcclFabric fabric(table(), {.table_file = path});
    fabric.connect_ranks(0, {fabric.address()});
    EXPECT_EQ(content(), "orrery-collectives 1\nfrom 0\n");
    fabric.use_collectives({{.kind = CollectiveKind::all_reduce,
                             .algorithm = CollectiveAlgorithm::tree}});
    EXPECT_EQ(content(), "orrery-collectives 1\nfrom 0\nall_reduce 0 0 tree\n");
  }
  std::remove(path.c_str());
}

TEST_F(NcclFabricTest, AnAddressThatIsNoIdIsRefused) {
  make(2);
  for (const std::string& address : {std::string("unix:/tmp/x"), std::string("nccl:12"),
                                     "nccl:" + std::string(256, 'g')}) {
    EXPECT_THROW(fabrics[1]->connect_ranks(1, {address, addresses[1]}), FabricBroken);
  }
}

TEST_F(NcclFabricTest, ADeviceThatIsNotThereIsAnError) {
  EXPECT_THROW(NcclFabric(table(), {.device = 5}), std::exception);
}

TEST(NcclLibrary, OneThatIsMissingOrTooOldHasAReason) {
  EXPECT_THROW(gpu::NcclLibrary("libno-such-nccl.so.2"), std::runtime_error);
  try {
    gpu::NcclLibrary("libc.so.6");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("too old"), std::string::npos);
  }
}

TEST(NcclLibrary, WithoutADeviceTheReasonIsTheModules) {
  std::string reason;
  EXPECT_EQ(find_nccl("/no/such/module.so", reason), nullptr);
  EXPECT_NE(reason.find("liborrery_cuda.so"), std::string::npos);
}

}  // namespace
}  // namespace orrery::live
