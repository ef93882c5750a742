"""A synchronous pair: two brokers on one machine, of which the standby has on disk all that the active has confirmed.

It exists for tests of failover. The lock of the file `active.lock` stands for the lock manager of a real cluster: the
kernel gives it to one process only, and frees it when that process ends. So both members must run on one machine.

- `members`: the shared folder. It has the lock, and the file `in-sync` with the members that may take over.
- `frames`: what the members say to each other, as values and bytes. Free of I/O.
- `active`: the member that has the lock sends a snapshot of its journal, and then each batch of the group commit, which
  it confirms when the standby has it. Before it confirms one alone it takes the standby out of `in-sync`.
- `standby`: the other member stores what comes, and waits for the lock.
"""
