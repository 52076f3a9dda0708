// A line for each check of the page, and their sum.

let [passed, failed] = [0, 0];

export async function check(what, test) {
  try {
    await test();
    passed += 1;
    console.log(`ok      ${what}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${what}: ${error.message}`);
  }
}

export function same(found, expected, what = "") {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what} found ${a}, expected ${b}`);
}

// Runs the checks, ends the browser and the process.
export async function sum(run, browser) {
  try {
    await run();
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${error.stack}`);
  } finally {
    await browser.close();
  }
  console.log(`${passed} passed, ${failed} failed, 0 skipped`);
  process.exitCode = failed || !passed ? 1 : 0;
}
