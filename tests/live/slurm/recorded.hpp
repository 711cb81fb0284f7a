// Answers of a real Slurm 22.05.8 with eight nodes, recorded on 2026-11-26, for the tests of
// live/slurm.
#pragma once

#include <string>

namespace orrery::live {

/// Returns a name as squeue prints it: 64 bytes and the '|' after the last field.
inline std::string shown_name(const std::string& name) {
  std::string shown = name.substr(0, 64);
  shown.resize(64, ' ');
  return shown + "|";
}

/// Answer of squeue: requests of every kind, an array, held, dependent, placed and ended jobs. The
/// names, of 2026-11-30, have separators and line breaks.
inline const std::string kSqueueAnswer =
    "1|1795687798|COMPLETED|alice|(null)|orrery|1795687798|1:00|2|n[1-2]|gres:gpu:3|N/A|N/A|2||"
    "4294901759|None|0|(null)|" +
    shown_name("train-a") +
    "\n"
    "2|1795687798|RUNNING|bob|ours|orrery|1795687828|5:00|1|n1|N/A|gres:gpu:5|N/A|1||4294901758|"
    "None|0|(null)|" +
    shown_name("a b") +
    "\n"
    "5_1|1795687798|PENDING|dave|(null)|orrery|1795688029|1:00|1||gres:gpu:1|N/A|N/A|1||4294901755|"
    "BeginTime|0|(null)|" +
    shown_name("x|y") +
    "\n"
    "6|1795687798|PENDING|dave|(null)|orrery|1795688098|UNLIMITED|1||N/A|N/A|gres:gpu:2|2||"
    "4294901754|BeginTime|0|(null)|" +
    shown_name("line\n2|99|\nz") +
    "\n"
    "12|1795687946|PENDING|alice|(null)|orrery|1795688067|1:00|2||gres:gpu:3|N/A|N/A|2|n[3,6]|"
    "4294901753|BeginTime|1|(null)|" +
    shown_name(" lead") +
    "\n"
    "13|1795687944|PENDING|bob|(null)|orrery|1795687944|1:00|2||gres:gpu:8|N/A|N/A|2|n[1-2,4]|0|"
    "BadConstraints|0|(null)|" +
    shown_name("\xc3\xbc") +
    "\n"
    "7|1795687798|PENDING|dave|(null)|orrery|N/A|3:00|1||N/A|N/A|N/A|2||0|JobHeldUser|0|"
    "afterok:1(unfulfilled)|" +
    shown_name("") +
    "\n"
    "8|1795687798|PENDING|dave|(null)|orrery|N/A|3:00|1||gres:gpu:a100:2|N/A|N/A|1||0|JobHeldUser|"
    "0|(null)|" +
    shown_name(std::string(70, 'x')) +
    "\n"
    "4|1795687798|PENDING|carol|(null)|other|1795688098|1-01:00:00|2||N/A|gres:gpu:6|N/A|2||"
    "4294901756|BeginTime|0|(null)|" +
    shown_name("wrap") + "\n";

/// Answer of scontrol -o show node, three of eight nodes; the second is drained, the third silent.
inline const std::string kNodesAnswer =
    "NodeName=n1 Arch=x86_64 CoresPerSocket=8  CPUAlloc=2 CPUEfctv=8 CPUTot=8 CPULoad=2.45 "
    "AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:8 NodeAddr=127.0.0.1 "
    "NodeHostName=localhost Port=17811 Version=22.05.8 OS=Linux 6.1.0 #1 SMP @0  RealMemory=1000 "
    "AllocMem=0 FreeMem=19229 Sockets=1 Boards=1 State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 "
    "Owner=N/A MCS_label=N/A Partitions=orrery,other  BootTime=1795687343 "
    "SlurmdStartTime=1795687768 LastBusyTime=1795687768 CfgTRES=cpu=8,mem=1000M,billing=8 "
    "AllocTRES=cpu=2 CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s\n"
    "NodeName=n2 Arch=x86_64 CoresPerSocket=8  CPUAlloc=0 Gres=gpu:a100:4(S:0-1) "
    "NodeAddr=127.0.0.1 OS=Linux 6.1.0 State=IDLE+DRAIN ThreadsPerCore=1 Partitions=orrery,other  "
    "BootTime=1795687343 Reason=State=IDLE Gres=gpu:64 [root@1795688000]\n"
    "NodeName=n3 Arch=x86_64 CoresPerSocket=8  CPUAlloc=0 Gres=gpu:8 NodeAddr=127.0.0.1 OS=Linux "
    "6.1.0 State=IDLE* ThreadsPerCore=1 Partitions=other  BootTime=1795687343\n";

/// Answer of sacct: an ended array task, a cancelled and a running job.
inline const std::string kSacctAnswer =
    "14_2|1795687944|COMPLETED|1795687950|1795688010\n15|1795687950|CANCELLED by 1001|None|"
    "1795687960\n16|1795687951|RUNNING|1795687952|Unknown\n";

/// Part of the answer of scontrol show config.
inline const std::string kConfigAnswer =
    "Configuration data as of 1795687798\nAccountingStorageHost   = localhost\n"
    "BOOT_TIME               = 1795687767\nClusterName             = toy\n";

}  // namespace orrery::live
