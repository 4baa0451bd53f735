// Prints golden facts about schedules of robfig/cron: the first instants, a hash of 1,000, and the last one.
//
//	apt-get install golang-go golang-github-robfig-cron-dev
//	cut -f1-4 tests/importers/golden_robfig.tsv > specs.tsv
//	GO111MODULE=off GOPATH=/usr/share/gocode go run tests/importers/golden_robfig.go < specs.tsv > tests/importers/golden_robfig.tsv
//
// A line of the input has, separated by tabs: 5 or 6 (the number of fields; with 6 the first is the seconds), a zone, a
// schedule, and the instant after which to begin. Kubernetes parses schedules of five fields with the standard parser,
// Dkron those of six with a parser that also accepts descriptors.
package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/robfig/cron"
)

func main() {
	parsers := map[string]cron.Parser{
		"5": cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor),
		"6": cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor),
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		part := strings.Split(lines.Text(), "\t")
		schedule, err := parsers[part[0]].Parse("CRON_TZ=" + part[1] + " " + part[2])
		if err != nil {
			fmt.Printf("%s\trefused\n", lines.Text())
			continue
		}
		at, err := time.Parse(time.RFC3339, part[3])
		if err != nil {
			panic(err)
		}
		hash := sha256.New()
		first := []string{}
		for n := 0; n < 1000; n++ {
			at = schedule.Next(at)
			fmt.Fprintf(hash, "%d\n", at.Unix())
			if n < 2 {
				first = append(first, at.UTC().Format("2006-01-02T15:04:05Z"))
			}
		}
		fmt.Printf("%s\t%s\t%s\t%.16x\n", lines.Text(), strings.Join(first, " "), at.UTC().Format("2006-01-02T15:04:05Z"), hash.Sum(nil)[:8])
	}
}
