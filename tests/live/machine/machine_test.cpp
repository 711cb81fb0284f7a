#include "live/machine/machine.hpp"

#include "tests/live/fake_sys.hpp"

namespace orrery::live {
namespace {

TEST(Machine, GpusAreFoundWithTheirLinksAndOtherDevicesAreNot) {
  FakeSys sys;
  sys.pci("0000:17:00.0", "0x030200", "0x10de");
  sys.pci("0000:18:00.0", "0x030200", "0x10de");
  sys.pci("0000:02:00.0", "0x030000", "0x1a03");  // the console of the server
  sys.pci("0000:19:00.0", "0x020700", "0x15b3");  // a network card
  const Machine machine = scan_machine(sys.path());
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].vendor, "NVIDIA");
  EXPECT_EQ(machine.gpus[0].pci.address, "0000:17:00.0");
  EXPECT_EQ(machine.gpus[0].pci.speed, "32.0 GT/s PCIe");
  EXPECT_EQ(machine.gpus[0].pci.lanes, 16u);
  EXPECT_EQ(machine.gpus[0].pci.numa_node, 1);
}

TEST(Machine, CardsHaveTheirRatesAndWhatIsUnknownIsAbsent) {
  FakeSys sys;
  sys.file("class/net/eth0/operstate", "up");
  sys.file("class/net/eth0/speed", "25000");
  sys.file("class/net/eth0/device/numa_node", "-1");
  sys.file("class/net/veth1/operstate", "down");
  sys.file("class/net/veth1/speed", "-1");
  sys.file("class/net/lo/operstate", "unknown");
  sys.file("class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  sys.file("class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  sys.file("devices/system/node/node0/cpulist", "0-1");
  sys.file("devices/system/node/node1/cpulist", "2-3");
  sys.file("devices/system/node/possible", "0-1");
  const Machine machine = scan_machine(sys.path());
  ASSERT_EQ(machine.cards.size(), 3u);
  EXPECT_TRUE(machine.cards[0].up);
  EXPECT_EQ(machine.cards[0].bits_per_second, 25e9);
  ASSERT_TRUE(machine.cards[0].pci);
  EXPECT_FALSE(machine.cards[0].pci->numa_node);
  EXPECT_FALSE(machine.cards[1].bits_per_second);
  EXPECT_FALSE(machine.cards[1].pci);
  EXPECT_TRUE(machine.cards[2].infiniband && machine.cards[2].up);
  EXPECT_EQ(machine.cards[2].bits_per_second, 400e9);
  EXPECT_EQ(machine.numa_nodes, 2u);
}

TEST(Machine, WithoutATreeNothingIsFound) {
  const Machine machine = scan_machine("/no/such/folder");
  EXPECT_TRUE(machine.gpus.empty() && machine.cards.empty());
  EXPECT_EQ(machine.numa_nodes, 0u);
}

TEST(Machine, NvmlThatIsMissingOrIsNoNvmlGivesAReason) {
  EXPECT_NE(probe_nvlinks("libno-such-nvml.so.1").reason.find("the NVIDIA driver is"),
            std::string::npos);
  EXPECT_NE(probe_nvlinks("libc.so.6").reason.find("lacks"), std::string::npos);
}

}  // namespace
}  // namespace orrery::live
