const box=document.querySelector("input"),found=document.querySelector("#found"),rows=[...document.querySelectorAll("#entries tr")].map(row=>({row,link:row.querySelector("a"),name:row.cells[0].textContent.toLowerCase()}));
const shown=()=>rows.filter(({row})=>!row.hidden);
box.hidden=false;
box.addEventListener("input",()=>{const wanted=box.value.toLowerCase().split(/\s+/).filter(Boolean);let count=0;for(const{row,name}of rows)if(!(row.hidden=!wanted.every(word=>name.includes(word))))count++;found.hidden=!wanted.length;found.textContent=count?count+" of "+rows.length+" match":"Nothing here matches"});
document.addEventListener("keydown",event=>{
if(event.ctrlKey||event.metaKey||event.altKey||event.isComposing||event.target.form)return;
const typing=event.target===box,step={ArrowDown:1,ArrowUp:-1}[event.key];
if(step){const links=shown().map(({link})=>link),at=links.indexOf(document.activeElement),next=at<0?(step>0?0:links.length-1):at+step;if(next<0)box.focus();else links[next]?.focus()}
else if(event.key==="Enter"&&typing)shown()[0]?.link.click();
else if(event.key==="Escape"&&typing){box.value="";box.dispatchEvent(new Event("input"));box.blur()}
else if(event.key==="/"&&!typing){box.focus();box.select()}
else if(event.key==="Backspace"&&!typing){const up=document.querySelector("a[rel=up]");if(!up)return;up.click()}
else return;
event.preventDefault()});
document.querySelector("#delete")?.addEventListener("submit",event=>{const name=event.submitter?.closest("tr")?.querySelector("bdi").textContent;if(!confirm("Delete "+name+"?"))event.preventDefault()});
