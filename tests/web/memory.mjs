// memory.mjs - the memory page and ten models: bytes and floor as 'ebb explain --json' has them, how soon they are there, and 'ebb train' at the floor.
//   EBB_WEB_TRAIN=0  without training: explain's floor alone
//   EBB_WEB_BUSY=1   other programs run: how long it took is told, not judged
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { at, base, check, ebb, endMaster, json, loginUrl, openBrowser, problems, runAll, same, startMaster, test, until, wait, work } from "./harness.mjs";

const BYTES_MS = 1500, TIMES_MS = 10000;
const images = (more) => `data: {name: imagefolder, data_dir: synthetic, ${more}}\n`, words = (length, vocabulary) => `data: {name: language, sequence_length: ${length}, vocabulary: ${vocabulary}}\n`;
// model, task, batch, data of the model's own sizes, updates that prove its floor: 0 where one takes minutes on two cores (then plans are made and proved, and
// memory is taken)
const rows = [["cifar_resnet20", "image_classification", 64, images("resize: 32, crop: 32, classes: 10"), 1], ["resnet50", "image_classification", 16, images("classes: 1000"), 1],
  ["cifar_resnet1202", "image_classification", 8, images("resize: 32, crop: 32, classes: 10"), 0], ["densenet121", "image_classification", 16, images("classes: 1000"), 0], ["unet", "segmentation", 2, "data: {name: unet}\n", 0],
  ["gpt2_124M", "language_model", 4, words(1024, 50257), 0], ["bert_large", "language_model", 2, "data: {name: bert, data_dir: synthetic}\n", 0], ["deepcam", "segmentation", 2, "data: {name: deepcam, data_dir: synthetic}\n", 0],
  ["wlm_lstm", "language_model", 16, words(35, 33278), 1], ["dtr_treelstm", "regression", 8, "", 1]];
let context, page;

function write(model, task, batch, data) {
  writeFileSync(join(work, model + ".yaml"), `${data}entrypoint: ebb:${task}\nmodel: {name: ${model}}\nhyperparameters: {global_batch_size: ${batch}}\nopt: {name: SGD, lr: 0.01, momentum: 0.9}\nsearcher: {name: single, metric: validation_loss, max_steps: 1}\n`);
  return model + ".yaml";
}
const train = (file, budget, updates) => spawnSync(ebb, ["train", file, "--updates", String(updates), "--no-validation", "--budget", String(budget)], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });

for (const [model, task, batch, data, updates] of rows)
  test(model, async () => {
    const shown = async (name) => Number(await page.locator("dt", { hasText: name }).locator("xpath=following-sibling::dd[1]").getAttribute("data-bytes"));
    problems.length = 0;
    await at(page, "/memory?model=dtr_mlp_none"); // no such model: nothing is shown, nothing is computed
    await page.getByRole("alert").first().waitFor();
    await wait(600); // the page takes quick changes for typing
    const start = Date.now();
    await page.evaluate((hash) => { location.hash = hash; }, `#/memory?model=${model}&batch=${batch}`);
    await page.waitForSelector(`[data-of="${model}"]`, { timeout: 30000 });
    const first = Date.now() - start;
    const second = await until(async () => (await page.locator("[data-times]").getAttribute("data-times")) > 0 || (await page.locator("[data-times] .error").count()), "times", 30000).then(() => Date.now() - start);
    const failed = (await page.locator("[data-times] .error").allTextContents())[0];
    const file = write(model, task, batch, data), want = json("explain", file, "--quick");
    same([await shown("Without limit"), await shown("Floor")], [want.unlimited_bytes, want.floor_bytes], "bytes and floor");
    let told = `bytes and floor after ${first} ms, times after ${second} ms`;
    if (process.env.EBB_WEB_TRAIN !== "0") {
      const good = train(file, want.floor_bytes, updates), bad = train(file, want.floor_bytes - 256, updates);
      check(good.status === 0, `ebb train in ${want.floor_bytes}: exit ${good.status}: ${good.stderr}`);
      check(bad.status === 1 && /floor|budget/.test(bad.stderr), `ebb train in 256 bytes less: exit ${bad.status}: ${bad.stderr}`);
      told += `; trains in ${want.floor_bytes} bytes (${updates} update), not in ${want.floor_bytes - 256}`;
    }
    problems.length = 0; // a refused model is an error of the console
    check(!failed, `${told}: ${failed}`);
    check(process.env.EBB_WEB_BUSY || (first <= BYTES_MS && second <= TIMES_MS), told);
    return told;
  });

await startMaster();
context = await openBrowser();
page = context.pages()[0];
page.expectsErrors = true;
await page.goto(loginUrl());
await page.getByRole("heading", { name: "Experiments" }).waitFor();
await at(page, "/memory?model=cifar_resnet20&batch=1"); // the list of models is asked for once
await page.waitForSelector("[data-of]");
const good = await runAll();
await context.close();
await endMaster();
process.exit(good ? 0 : 1);
