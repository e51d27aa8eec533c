package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// settings are what the command line says. Their defaults are those of the
// published experiment.
type settings struct {
	Scenarios []scenario
	Users     int
	Instances int
	TTL       time.Duration
	Wait      time.Duration
	JSON      bool

	Real     bool
	Redis    []string
	Database string
	Keepers  []string // of the fence zk

	given    map[string]bool // the flags that the scenario's default gives way to
	lengthIs time.Duration
	workIs   time.Duration
	coupon   int
	kinds    []fenceKind
	noKeeper bool // nor can one be started
}

func (s *settings) fences(c scenario) []fenceKind {
	switch {
	case s.given["fence"]:
		return s.kinds
	case s.mayHaveKeeper() && slices.Contains(c.fences, fenceRow): // a trip for a token, as from the row
		return append(slices.Clone(c.fences), fenceZK)
	default:
		return c.fences
	}
}

func (s *settings) mayHaveKeeper() bool { return (s.Real || len(s.Keepers) > 0) && !s.noKeeper }

func (s *settings) length(c scenario) time.Duration {
	if s.given["d"] {
		return s.lengthIs
	}
	return c.length
}

func (s *settings) work(c scenario) time.Duration {
	if s.given["work"] {
		return s.workIs
	}
	return c.work
}

func (s *settings) coupons(c scenario) int {
	if s.given["coupons"] {
		return s.coupon
	}
	return c.coupons(s.length(c))
}

// parse reads the command line. It prints what is wrong with it.
func parse(args []string, output io.Writer) (*settings, error) {
	s := &settings{given: map[string]bool{}}
	f := flag.NewFlagSet("coupon", flag.ContinueOnError)
	f.SetOutput(output)
	f.DurationVar(&s.lengthIs, "d", 0, "`length` of a sale (default 25s, rush 30s); the number of coupons goes with it")
	f.IntVar(&s.coupon, "coupons", 0, "`number` of coupons (default 4 for each second; load a million, rush 1000 for each second)")
	f.DurationVar(&s.workIs, "work", 0, "`time` the shop works between its read and its write (default 200ms, load and rush 0)")
	f.IntVar(&s.Users, "users", 40, "`number` of virtual users, who ask again as soon as they have an answer")
	f.IntVar(&s.Instances, "instances", 4, "`number` of processes of the shop")
	f.DurationVar(&s.TTL, "ttl", time.Second, "`TTL` of the lock")
	f.DurationVar(&s.Wait, "wait", 2*time.Second, "`time` a request waits for the lock before it is told \"busy\"")
	scenarios := f.String("scenario", story, "comma-separated `names` of normal, clock-step, pause, load, rush")
	kinds := f.String("fence", join(fences), "comma-separated `kinds` of fence: none, or where the tokens come from (rush: none,quorum); with -real or -zk also zk")
	f.BoolVar(&s.JSON, "json", false, "print one JSON object a row instead of the table")
	f.BoolVar(&s.Real, "real", false, "start redis-server, PostgreSQL and ZooKeeper from this machine instead of the embedded ones")
	nodes := f.String("redis", "", "`addresses` of three running Redis nodes: a,b,c (with -db)")
	f.StringVar(&s.Database, "db", "", "`address` of a running database: postgres://… or sqlite:/a/file (with -redis)")
	keepers := f.String("zk", "", "`addresses` of a running ZooKeeper, host:port,…: adds the fence zk")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	f.Visit(func(g *flag.Flag) { s.given[g.Name] = true })
	if *keepers != "" {
		s.Keepers = strings.Split(*keepers, ",")
	}
	err := s.fill(*scenarios, *kinds, *nodes)
	if err == nil && f.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(output, "coupon:", err)
	}
	return s, err
}

func (s *settings) fill(scenarios, kinds, nodes string) error {
	for name := range strings.SplitSeq(scenarios, ",") {
		c, err := findScenario(name)
		if err != nil {
			return err
		}
		s.Scenarios = append(s.Scenarios, c)
	}
	for name := range strings.SplitSeq(kinds, ",") {
		kind := fenceKind(name)
		switch {
		case kind == fenceZK && !s.mayHaveKeeper():
			return fmt.Errorf("the fence zk needs a ZooKeeper: give -real, which starts one, or -zk")
		case kind != fenceZK && !slices.Contains(fences, kind):
			return fmt.Errorf("there is no fence %q, only %s", name, join(append(slices.Clone(fences), fenceZK)))
		}
		s.kinds = append(s.kinds, kind)
	}
	if nodes != "" {
		s.Redis = strings.Split(nodes, ",")
	}
	switch {
	case (nodes == "") != (s.Database == ""):
		return fmt.Errorf("-redis and -db go together")
	case s.Real && nodes != "":
		return fmt.Errorf("-real starts servers, -redis and -db name running ones: give one of the two")
	case s.given["d"] && s.lengthIs < time.Second:
		return fmt.Errorf("-d %v is shorter than a second", s.lengthIs)
	case s.Users < 2 || s.Instances < 2:
		return fmt.Errorf("a lock needs at least two users and two instances")
	case s.given["coupons"] && s.coupon < 1:
		return fmt.Errorf("-coupons %d is less than one", s.coupon)
	case s.Wait < 0 || s.workIs < 0:
		return fmt.Errorf("neither -wait nor -work can be negative")
	}
	return nil
}

func join(kinds []fenceKind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ",")
}
