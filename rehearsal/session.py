"""One command of the operator from its first stage to its report."""

from dataclasses import dataclass

from rich.console import Console

from rehearsal import containers, images, inventory, life, parts, progress, report
from rehearsal.commands import Interrupted, RehearsalError, signals
from rehearsal.deploy import Follower, deploy
from rehearsal.places import Site, cache_dir
from rehearsal.state import State

RECORD = cache_dir() / "durations.json"


@dataclass
class Session:
    """Brings a site up and deploys to it, showing how far it is."""

    site: Site
    fresh: bool

    def __post_init__(self) -> None:
        variables = inventory.host_variables(self.site.inventory)
        self.hosts, self.stock = inventory.wanted(variables), inventory.stock(variables)
        self.drives, self.disks = inventory.with_drive(variables), inventory.disks(variables)
        self.revisions = {values.get("serving_model_revision") for values in variables.values()} - {None}
        self.engine = containers.detect()
        self.kind = self._kind()
        self.clock = progress.Clock(progress.expected(self.kind, RECORD))
        self.display = progress.display()
        self.log = self.site.logs / "deploy.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)

    def _kind(self) -> str:
        """Which earlier runs this one will be like: all to build, a new site, or a site that is up."""
        if images.missing(self.engine) or ("engine" in self.stock and not parts.has_engine()):
            return "cold"
        state = State.load(self.site.state_file)
        up = state and life.is_current(self.site, self.engine, state, self.hosts)
        return "again" if up and not self.fresh else "warm"

    def _stage(self, name: str, doing: str) -> None:
        self.clock.enter(name)
        self.display.step(self.clock, doing, big=True)

    def bring_up(self) -> State:
        wanted = [*(["hosts"] if images.missing(self.engine) else []), *sorted(self.stock)]
        self._stage("build", f"What the cache does not have of {', '.join(wanted) or 'the hosts'}")
        results = parts.build_all(self.site, wanted, lambda text: self.display.step(self.clock, text))
        if "model" in results:
            self._check_revision(results["model"]["commit"])
        self._stage("start", "The hosts of the site")
        state = life.up(self.site, self.engine, self.hosts, self.drives, self.disks, fresh=self.fresh)
        if "engine" in results:
            self._stage("push", "The engine image to the registry of the site")
            life.fill(self.site, self.engine, state, results["engine"])
        return state

    def _check_revision(self, commit: str) -> None:
        if self.revisions and commit not in self.revisions:
            raise RehearsalError(
                f"the hub of the site holds commit {commit}, but its serving_model_revision is "
                f"{', '.join(map(str, self.revisions))}: write the commit into {self.site.inventory}/site.yml"
            )

    def up(self) -> int:
        try:
            state = self.bring_up()
        finally:
            self.display.close()
        where = ", ".join(f"{host.name} {host.address}" for host in state.hosts)
        print(f"The site {self.site.name} {'was up already' if self.kind == 'again' else 'is up'}: {where}")
        return 0

    def run(self) -> int:
        """Bring up, deploy, report. Exit code 0 only if the model answered."""
        console = Console()
        try:
            self.bring_up()
            with self.log.open("w") as log:
                follower = Follower(self.clock, self.display, log)
                status = deploy(self.site, follower)
        finally:
            self.display.close()
        if signals.received is not None:
            raise Interrupted
        spent = self.clock.spent
        if status == "successful":
            progress.remember(self.kind, spent, RECORD)
            report.success(console, self.site, spent, follower.busy)
        else:
            report.failure(console, status, follower.failures, self.log)
        report.farewell(console, self.site)
        return 0 if status == "successful" else 2
